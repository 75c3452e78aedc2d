"""How often Python looks for garbage that refers to itself."""

from __future__ import annotations

import gc

# Tens of thousands of rows and messages come and go within a second, and none of them refers to itself.
BETWEEN = 50_000, 20, 100


def rarely() -> None:
    """A look through all that is known of a thousand hosts takes a tenth of a second, deaf to keys."""
    gc.set_threshold(*BETWEEN)
