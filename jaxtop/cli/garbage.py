"""The frequency of Python's search for cyclic garbage."""

from __future__ import annotations

import gc

# Tens of thousands of rows and messages are created and freed per second, and none of them is cyclic.
BETWEEN = 50_000, 20, 100


def rarely() -> None:
    """Make garbage collection rare: with a thousand hosts a full one delays keys by a tenth of a second."""
    gc.set_threshold(*BETWEEN)
