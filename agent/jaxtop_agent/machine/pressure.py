"""How long tasks waited for CPU, memory or disks, as the kernel counts it (PSI)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from jaxtop_agent.machine import files

if TYPE_CHECKING:
    from collections.abc import Sequence

_TOTAL = re.compile(r"^some .*\btotal=(\d+)", re.MULTILINE)


class Waits(NamedTuple):
    """Seconds in which at least one task waited; None where the kernel does not count."""

    cpu_s: float | None = None
    memory_s: float | None = None
    io_s: float | None = None


def waits(places: Sequence[str], root: str = "") -> Waits:
    """Return the waits of the first of these groups with pressure files, else of the machine."""
    for place in places:
        found = Waits(*(_total(f"{place}/{name}.pressure") for name in ("cpu", "memory", "io")))
        if found != Waits():
            return found
    return Waits(*(_total(f"{root}/proc/pressure/{name}") for name in ("cpu", "memory", "io")))


def _total(path: str) -> float | None:
    found = _TOTAL.search(files.text(path) or "")
    microseconds = files.number(found[1]) if found else None
    return None if microseconds is None else microseconds / 1e6
