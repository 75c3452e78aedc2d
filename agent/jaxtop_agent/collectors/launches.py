"""Which function was launched when: by JAX's launch hook, and by a method where JAX does not call it."""

from __future__ import annotations

import weakref
from collections import deque
from itertools import count, takewhile
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from jaxtop.names import unwrapped
from jaxtop_agent import jaxprivate
from jaxtop_agent.core.clock import now_ms
from jaxtop_agent.steps.pattern import Launch

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.wire import Window

# A program that makes new functions for ever must not make the agent grow for ever.
MOST_NAMES = 500
THE_REST = "(other functions)"
# All functions of `jax.pmap` have one of these names. Each has a number of its own, or a step of two such
# functions would look like two steps.
OF_PMAP = frozenset({"_fun", "call_wrapped", "_multi_slice"})
MANY, MOST_OF_PMAP = "\0", 16
# So many launches are remembered, a number each: the seconds since we began, and for each function before it
# so many more. That is exact to 2 µs.
REMEMBERED = 1024
SPAN = 2.0**24

FAST_ONLY = "at least: not counted are first calls, and functions that take refs or call back into Python"
# What runs now was launched no more seconds ago than this.
AHEAD = 120.0
UNSEEN = "off: this process computes, but none of its launches is seen"
TAKEN = "off: JAX checks each launch itself (jax_debug_nans, jax_debug_infs)"


class Launches:
    """The hook runs on the user's thread after each launch: a lookup, an addition, nothing that raises.

    Functions of one name are one function here.
    """

    name = "launches"

    def __init__(self) -> None:
        # Each name has a number, and each function, by its id, that of its name.
        self._named: dict[str, int] = {THE_REST: 0}
        self._next, self._of_pmap = count(1), count()
        self._counts = [0] * MOST_NAMES
        self._numbers: dict[int, int] = {}
        self._alive: dict[int, weakref.ref[Any]] = {}
        # A window of the profiler saw programs run that nobody launched here.
        self.is_blind = False
        # Numbers, not pairs: pairs would have Python look for garbage so much more often.
        self._recent: deque[float] = deque(maxlen=REMEMBERED)
        self._began = monotonic()
        self._slot = jaxprivate.LaunchHook()
        self._hook = self._make_hook()
        self._in_threads = _if_there(jaxprivate.ThreadHooks, self._hook)  # before 0.8 threads have no slot
        self._slow = _if_there(jaxprivate.SlowLaunches, self._note_slow)

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

    def _note_slow(self, name: str) -> None:
        """Count a launch outside JAX's fast path, where the hook is not called."""
        number = self._named.get(unwrapped(name))
        if number is None:
            number = self._number(unwrapped(name))
        self._counts[number] += 1
        self._recent.append(monotonic() + number * SPAN - self._began)

    def _number(self, name: str) -> int:
        new = next(self._next)
        return self._named.setdefault(name, new) if new < MOST_NAMES else 0

    def _first_sight(self, fun: Any) -> int:
        """The number of a function; a launch that is counted among others harms nobody.

        Nothing here can be waited for, and each step is atomic: other threads launch meanwhile.
        """
        try:
            name, key = jaxprivate.name_of(fun), id(fun)
            if name in OF_PMAP:
                name = f"{name}{MANY}{next(self._of_pmap) % MOST_OF_PMAP}"
            number = self._named.get(name)
            if number is None:
                number = self._number(name)

            def forget(_: object) -> None:  # another function may get this id
                self._numbers.pop(key, None)
                self._alive.pop(key, None)

            self._alive[key] = weakref.ref(fun, forget)
            self._numbers[key] = number
        except Exception:
            return 0
        return number

    def install(self) -> str:
        """Count from now on; on the user's thread. Returns how the source stands."""
        for each in (self._in_threads, self._slow):
            if each is not None:
                each.install()
        return self.keep()

    def keep(self) -> str:
        """Take the slot if it is free, as `debug_nans` leaves it again; returns how the source stands."""
        current = self._slot.get()
        if current is None:
            self._slot.set(self._hook)
        # Not in front of another hook: those of JAX raise on purpose, and the user's traceback would show us.
        if current not in (None, self._hook):
            return TAKEN
        if self.is_blind:
            return UNSEEN
        return FAST_ONLY if self._slow is None else "on"

    def uninstall(self) -> None:
        """Give the slot back, unless somebody else has taken it since."""
        if self._slot.get() is self._hook:
            self._slot.set(None)
        for each in (self._in_threads, self._slow):
            if each is not None:
                each.uninstall()

    def totals(self) -> dict[str, int]:
        """Launches by function name since the start."""
        found: dict[str, int] = {}
        for number, name in self.names().items():
            if self._counts[number]:
                found[name] = found.get(name, 0) + self._counts[number]
        return found

    def names(self) -> dict[int, str]:
        """The functions by their numbers."""
        return {number: name.partition(MANY)[0] for name, number in self._named.copy().items()}

    def last(self) -> tuple[float, str]:
        """The last launch: when, by the monotonic clock, and of which function; 0 before the first one."""
        if not self._recent:
            return 0.0, ""
        function, since = divmod(self._recent[-1], SPAN)
        return self._began + since, self.names()[int(function)]

    def compare(self, window: Window) -> None:
        """Check against a window of the profiler, which sees programs run whoever launched them."""
        if window.launches:
            began = monotonic() - (now_ms() - window.at_ms) / 1000 - AHEAD
            self.is_blind = not self.since(round(began * 1e9))

    def since(self, at: int) -> list[Launch]:
        """What is remembered of the launches after a time, in nanoseconds of the monotonic clock."""
        newest_first = map(self._launch, reversed(self._recent.copy()))
        return list(takewhile(lambda launch: launch.at > at, newest_first))[::-1]

    def _launch(self, noted: float) -> Launch:
        function, since = divmod(noted, SPAN)
        return Launch(round((self._began + since) * 1e9), int(function))


T = TypeVar("T")


def _if_there(make: Callable[[Any], T], told: Any) -> T | None:
    try:
        return make(told)
    except jaxprivate.Missing:
        return None
