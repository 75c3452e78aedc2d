"""The report of `jaxtop doctor` on `jaxtop inject`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jaxtop.cli.doctor import NOTE, OK, CheckResult
from jaxtop.features.inject import target, tracer

if TYPE_CHECKING:
    from collections.abc import Iterator


def checks() -> Iterator[CheckResult]:
    """Check what the command needs, for processes with a Python older than 3.14."""
    why_not = tracer.why_not() or (target.scope() if os.geteuid() != 0 else None)
    yield CheckResult(
        "inject", NOTE if why_not else OK, why_not or "through ptrace, into processes of this user"
    )
