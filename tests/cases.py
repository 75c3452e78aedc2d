"""Cases of parametrised tests, of which the gate runs some and `make soak` all."""

from __future__ import annotations

from typing import Any

import pytest


def thorough(*values: Any, **more: Any) -> Any:
    """One more case of its kind, which only `make soak` and `JAXTOP_SOAK=1` run."""
    return pytest.param(*values, marks=pytest.mark.thorough, **more)
