"""Which compiled function was launched when, told by JAX's own post-launch hook."""

from __future__ import annotations

import weakref
from collections import deque
from itertools import count, takewhile
from time import monotonic
from typing import TYPE_CHECKING, Any

from jaxtop_agent import jaxprivate
from jaxtop_agent.steps.pattern import Launch

if TYPE_CHECKING:
    from collections.abc import Callable

# A program that makes new functions for ever must not make the agent grow for ever.
MOST_NAMES = 500
THE_REST = "(other functions)"
# So many launches are remembered, a number each: the seconds since we began, and for each function before it
# so many more. That is exact to 2 µs.
REMEMBERED = 1024
SPAN = 2.0**24

BLIND_SPOTS = "at least: not counted are first calls, and functions with host callbacks"
TAKEN = "off: JAX checks each launch itself (jax_debug_nans, jax_debug_infs)"


class Launches:
    """The hook runs on the user's thread after each launch: a lookup, an addition, nothing that raises.

    Functions of one name are one function here.
    """

    name = "launches"

    def __init__(self) -> None:
        # Each name has a number, and each function, by its id, that of its name.
        self._named: dict[str, int] = {THE_REST: 0}
        self._next = count(1)
        self._counts = [0] * MOST_NAMES
        self._numbers: dict[int, int] = {}
        self._alive: dict[int, weakref.ref[Any]] = {}
        # Numbers, not pairs: pairs would have Python look for garbage so much more often.
        self._recent: deque[float] = deque(maxlen=REMEMBERED)
        self._began = monotonic()
        self._slot = jaxprivate.LaunchHook()
        self._hook = self._make_hook()
        self._in_threads = self._thread_hooks()

    def _make_hook(self) -> Callable[[Any, Any, Any, Any], None]:
        numbers, counts, note, first_sight = (
            self._numbers,
            self._counts,
            self._recent.append,
            self._first_sight,
        )
        offsets = [number * SPAN - self._began for number in range(MOST_NAMES)]

        def hook(fun: Any, args: Any, kwargs: Any, out: Any) -> None:  # noqa: ARG001 - JAX's signature
            try:
                number = numbers[id(fun)]
            except KeyError:
                number = first_sight(fun)
            counts[number] += 1
            note(monotonic() + offsets[number])

        return hook

    def _first_sight(self, fun: Any) -> int:
        """The number of a function; a launch that is counted among others harms nobody.

        Nothing here can be waited for, and each step is atomic: other threads launch meanwhile.
        """
        try:
            name, key = jaxprivate.name_of(fun), id(fun)
            number = self._named.get(name)
            if number is None:
                new = next(self._next)
                number = self._named.setdefault(name, new) if new < MOST_NAMES else 0

            def forget(_: object) -> None:  # another function may get this id
                self._numbers.pop(key, None)
                self._alive.pop(key, None)

            self._alive[key] = weakref.ref(fun, forget)
            self._numbers[key] = number
        except Exception:
            return 0
        return number

    def _thread_hooks(self) -> jaxprivate.ThreadHooks | None:
        try:
            return jaxprivate.ThreadHooks(self._hook)
        except jaxprivate.Missing:  # before 0.8 threads have no slot of their own
            return None

    def install(self) -> str:
        """Count from now on; on the user's thread. Returns how the source stands."""
        if self._in_threads is not None:
            self._in_threads.install()
        return self.keep()

    def keep(self) -> str:
        """Take the slot if it is free, as `debug_nans` leaves it again; returns how the source stands."""
        current = self._slot.get()
        if current is None:
            self._slot.set(self._hook)
        # Not in front of another hook: those of JAX raise on purpose, and the user's traceback would show us.
        return BLIND_SPOTS if current in (None, self._hook) else TAKEN

    def uninstall(self) -> None:
        """Give the slot back, unless somebody else has taken it since."""
        if self._slot.get() is self._hook:
            self._slot.set(None)
        if self._in_threads is not None:
            self._in_threads.uninstall()

    def totals(self) -> dict[str, int]:
        """Launches by function name since the start."""
        return {name: self._counts[i] for i, name in self.names().items() if self._counts[i]}

    def names(self) -> dict[int, str]:
        """The functions by their numbers."""
        return {number: name for name, number in self._named.copy().items()}

    def since(self, at: int) -> list[Launch]:
        """What is remembered of the launches after a time, in nanoseconds of the monotonic clock."""
        newest_first = map(self._launch, reversed(self._recent.copy()))
        return list(takewhile(lambda launch: launch.at > at, newest_first))[::-1]

    def _launch(self, noted: float) -> Launch:
        function, since = divmod(noted, SPAN)
        return Launch(round((self._began + since) * 1e9), int(function))
