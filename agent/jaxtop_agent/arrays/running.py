"""The frames of running threads, read so that the program takes no harm.

Whoever keeps one keeps the variables of a function that may have ended since.

On Python 3.11 to make an object may be to collect garbage, there and then, which runs code of Python:
finalizers, and `gc.callbacks`, where JAX has some. Other threads go on meanwhile. Inside of
`sys._current_frames()` the whole process then stood still for ever if one of them began or ended (until
3.11.8); inside of `f_back` and `f_locals` the function that was asked for ended, and where its variables had
been was written to, which crashed the process. So no garbage is collected while one of these runs. Newer
versions collect between instructions only.
"""

from __future__ import annotations

import gc
import operator
import sys
from functools import partial
from itertools import accumulate, islice, repeat, takewhile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

COLLECTS_ANYWHERE = sys.version_info < (3, 12)
# There a function that is just ending is still shown, with variables that exist no more.
SHOWS_WHAT_ENDS = sys.version_info < (3, 11, 1)


def frames() -> dict[int, FrameType]:
    """Where each thread is, by its ident. To be cleared at once, as it is kept by a frame that it keeps."""
    found: dict[int, FrameType] = {} if SHOWS_WHAT_ENDS else _undisturbed(sys._current_frames)
    return found


def stack(frame: FrameType, deepest: int | None = None) -> list[FrameType]:
    """A frame and those that it was called by, the innermost first."""
    outwards: Any = accumulate(repeat("f_back"), getattr, initial=frame)
    found: list[FrameType] = _undisturbed(
        partial(list, islice(takewhile(partial(operator.is_not, None), outwards), deepest))
    )
    return found


def suspended(value: object, attribute: str) -> Any:
    """The frame of a generator or coroutine, by the attribute that has it; None once it has ended."""
    return _undisturbed(partial(getattr, value, attribute))


def referents(value: object) -> list[Any]:
    """What an object of one of Python's own types holds."""
    found: list[Any] = _undisturbed(partial(gc.get_referents, value))
    return found


def local_variables(frame: FrameType) -> Any:
    """What `f_locals` is on this version of Python."""
    return _undisturbed(partial(getattr, frame, "f_locals"))


def _undisturbed(read: Callable[[], Any]) -> Any:
    """What this function returns, which is made in C, with no garbage collected meanwhile."""
    if not COLLECTS_ANYWHERE:
        return read()
    # One call, of functions made in C only: no other thread runs in between. So none finds the collection off
    # that it had on, or on that it has just switched off. Where it is off, this ends after the first step.
    steps = map(operator.call, (gc.isenabled, gc.disable, read, gc.enable))
    try:
        done = list(takewhile(partial(operator.is_not, False), steps))
    except BaseException:  # no memory, or a hook of the script's that audits
        gc.enable()
        raise
    return done[2] if done else read()
