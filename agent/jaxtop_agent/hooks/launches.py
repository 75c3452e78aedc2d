"""The launches of functions and their times, from JAX's launch hook, and from a method it does not cover."""

from __future__ import annotations

import weakref
from collections import deque
from itertools import count
from threading import get_ident, main_thread
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from jaxtop.base.clock import now_ms
from jaxtop.base.names import unwrapped
from jaxtop_agent import jaxprivate
from jaxtop_agent.steps.pattern import FunctionLaunch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jaxtop.wire import Window

# The bound keeps the agent from growing with a program that makes new functions forever.
MOST_NAMES = 500
THE_REST = "(other functions)"
# All functions of `jax.pmap` have one of these names. Each function has its own number: otherwise a step of
# two such functions would look like two steps. The same holds for functions of one name from different lines.
OF_PMAP = frozenset({"_fun", "call_wrapped", "_multi_slice"})
# The separator between the name of a function and its number.
NUMBER_SEPARATOR = "\0"
# The number of functions of one name that are told apart.
MAX_SAME_NAMES = 16
# Appended to the names of JAX's own functions: a function of the script may have the same name.
OF_JAX = f"{NUMBER_SEPARATOR}jax"
# The number of remembered launches. Each is one float: the seconds since the start, plus SPAN times the
# function's number. The float is exact to 2 µs, and negative for a first call.
MAX_LAUNCHES = 1024
SPAN = 2.0**24

COUNTED_BUT_NOT_NOTED_S = 0.002

FAST_ONLY = "at least: first calls and functions with refs or Python callbacks are not counted"
# Seconds: the programs that run now were launched within this time.
MAX_LAUNCH_AHEAD_S = 120.0
UNSEEN = "off: the process computes, but its launches are not visible"
TAKEN = "off: JAX checks each launch itself (jax_debug_nans, jax_debug_infs)"


class NumberedLaunch(NamedTuple):
    """A launch: its monotonic time, its function, and how often that function had been launched before."""

    at: int
    function: str
    number: int


class Launches:
    """The launches of the process. Functions with the same name count as one function.

    The hook runs on the user's thread after each launch: it does a lookup and an addition, and never raises.
    """

    name = "launches"

    def __init__(self) -> None:
        # Each name has a number. Each function, by its id, has the number of its name.
        self._named: dict[str, int] = {THE_REST: 0}
        self._next, self._of_pmap = count(1), count()
        self._counts = [0] * MOST_NAMES
        # The names by number and their set, made again when there are more.
        self._names: dict[int, str] = {}
        self._functions: frozenset[str] = frozenset()
        self._numbers: dict[int, int] = {}
        self._alive: dict[int, weakref.ref[Any]] = {}
        self._of_the_script: set[int] = set()
        # The line of the first function of each name.
        self._places: dict[str, tuple[str, int]] = {}
        # Whether launches are counted from a line of the script on, which all processes reach alike.
        self.is_shared = False
        # True after a window of the profiler saw programs run whose launches the hook did not see.
        self.is_blind = False
        # Floats instead of pairs: pairs would make Python's garbage collector run more often.
        self._recent: deque[float] = deque(maxlen=MAX_LAUNCHES)
        # The functions that were launched outside the fast path. The first such launch of each is marked: it
        # is not a step, because others compile around it.
        self._slow_numbers: set[int] = set()
        # The thread and the function of the last launch outside the fast path.
        self._slow_last = 0, ""
        self._began = monotonic()
        self._slot = jaxprivate.LaunchHook()
        self._hook = self._make_hook()
        self._in_threads = _if_there(jaxprivate.ThreadHooks, self._hook)
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
        name = unwrapped(name)
        self._slow_last = get_ident(), name
        number = self._named.get(name)
        if number is None:
            number = self._number(name)
        self._counts[number] += 1
        noted = monotonic() + number * SPAN - self._began
        is_first = number not in self._slow_numbers
        self._slow_numbers.add(number)
        self._recent.append(-noted if is_first else noted)

    def _number(self, name: str) -> int:
        new = next(self._next)
        return self._named.setdefault(name, new) if new < MOST_NAMES else 0

    def _first_sight(self, fun: Any) -> int:
        """Return the number of a function; 0, the number of all other functions, if this fails.

        No lock may be taken here, because other threads launch meanwhile. So each operation is atomic.
        """
        try:
            name, key = jaxprivate.name_of(fun), id(fun)
            if name in OF_PMAP:
                name, of_jax = f"{name}{NUMBER_SEPARATOR}{next(self._of_pmap) % MAX_SAME_NAMES}", None
            else:
                of_jax = _if_there(jaxprivate.is_jaxs, fun)
                name = self._told_apart(name, fun)
            name = name + OF_JAX if of_jax else name
            number = self._named.get(name)
            if number is None:
                number = self._number(name)
            if of_jax is False and number:
                self._of_the_script.add(number)

            def forget(_: object) -> None:  # another function may get this id
                self._numbers.pop(key, None)
                self._alive.pop(key, None)

            self._alive[key] = weakref.ref(fun, forget)
            self._numbers[key] = number
        except Exception:
            return 0
        return number

    def _told_apart(self, name: str, fun: Any) -> str:
        """Return the name of a function, with a number where another line has one of that name."""
        code = jaxprivate.code_of(fun)
        if code is None:
            return name
        place = code.co_filename, code.co_firstlineno
        if len(self._places) < MOST_NAMES:
            self._places.setdefault(name, place)
        is_first = self._places.get(name, place) == place
        return name if is_first else f"{name}{NUMBER_SEPARATOR}{hash(place) % MAX_SAME_NAMES}"

    def install(self) -> str:
        """Count from now on, and return the state of the source; call it on the user's thread."""
        self.is_shared = get_ident() == main_thread().ident  # `jaxtop inject` comes at any moment
        for each in (self._in_threads, self._slow):
            if each is not None:
                each.install()
        return self.restore()

    def restore(self) -> str:
        """Take the slot if it is free, as after `debug_nans` is off again; return the source's state."""
        current = self._slot.get()
        if current is None:
            self._slot.set(self._hook)
        # We do not wrap another hook: JAX's hooks raise on purpose, and the user's traceback would show ours.
        if current not in (None, self._hook):
            return TAKEN
        if self.is_blind:
            return UNSEEN
        return FAST_ONLY if self._slow is None else "on"

    def uninstall(self) -> None:
        """Release the slot, unless another hook has replaced ours."""
        if self._slot.get() is self._hook:
            self._slot.set(None)
        for each in (self._in_threads, self._slow):
            if each is not None:
                each.uninstall()

    def totals(self) -> dict[str, int]:
        """Return the number of launches since the start, by function name."""
        found: dict[str, int] = {}
        for number, name in self.names().items():
            if self._counts[number]:
                found[name] = found.get(name, 0) + self._counts[number]
        return found

    def names(self) -> Mapping[int, str]:
        """Return the names of the functions by their numbers."""
        if len(self._names) != len(self._named):
            self._names = {
                number: name.partition(NUMBER_SEPARATOR)[0] for name, number in self._named.copy().items()
            }
            self._functions = frozenset(self._names.values())
        return self._names

    def functions(self) -> frozenset[str]:
        """Return the names of all functions that were launched."""
        self.names()
        return self._functions

    def of_the_script(self) -> frozenset[int]:
        """Return the numbers of functions that are known to be the script's, whatever their names."""
        return frozenset(self._of_the_script.copy())

    def last(self) -> tuple[float, str]:
        """Return the monotonic time and the function of the last launch; time 0 before the first one."""
        if not self._recent:
            return 0.0, ""
        function, since = divmod(abs(self._recent[-1]), SPAN)
        return self._began + since, self.names()[int(function)]

    def launching(self) -> str:
        """Return the function that this thread launches outside the fast path; empty if there is none."""
        thread, name = self._slow_last
        return name if thread == get_ident() else ""

    def compare(self, window: Window) -> None:
        """Compare with a window of the profiler, which shows programs whether or not the hook saw them."""
        if window.launches:
            began = monotonic() - (now_ms() - window.at_ms) / 1000 - MAX_LAUNCH_AHEAD_S
            self.is_blind = self.last()[0] < began

    def launches_since(self, at: int) -> list[FunctionLaunch]:
        """Return the remembered launches after a time, in nanoseconds of the monotonic clock.

        First calls are left out: until the next launch, the script may compile another function.
        """
        return self._listed_since(at, has_first_calls=False)

    def all_since(self, at: int) -> list[FunctionLaunch]:
        """Return the remembered launches after a time, with first calls."""
        return self._listed_since(at, has_first_calls=True)

    def _listed_since(self, at: int, *, has_first_calls: bool) -> list[FunctionLaunch]:
        # One loop without calls: the ledger asks for a thousand launches at a time.
        found, began = [], self._began
        for noted in reversed(self._recent.copy()):
            if noted < 0 and not has_first_calls:
                continue
            function, since = divmod(abs(noted), SPAN)
            ns = round((began + since) * 1e9)
            if ns <= at:
                break
            found.append(FunctionLaunch(ns, int(function)))
        return found[::-1]

    def numbered(self) -> list[NumberedLaunch]:
        """Return the remembered launches with their numbers; none if other processes may count otherwise."""
        if not self.is_shared:
            return []
        # The hook counts a launch before it notes it, so a number may be one too high, but not for long.
        first = {(each.at, each.function): each.number for each in self._numbered()}
        sleep(COUNTED_BUT_NOT_NOTED_S)
        return [
            each._replace(number=min(each.number, first.get((each.at, each.function), each.number)))
            for each in self._numbered()
        ]

    def _numbered(self) -> list[NumberedLaunch]:
        recent, counts, names = self._recent.copy(), self.totals(), self.names()
        found = []
        for launch in (self._launch(abs(each)) for each in reversed(recent)):
            name = names[launch.function]
            counts[name] -= 1
            found.append(NumberedLaunch(launch.at, name, counts[name]))
        return found[::-1]

    def reaches_back(self, at: int) -> bool:
        """Return whether all launches after a time, in nanoseconds of the monotonic clock, are remembered."""
        recent = self._recent
        return len(recent) < MAX_LAUNCHES or self._launch(abs(recent[0])).at <= at

    def counts(self) -> dict[int, int]:
        """Return the number of launches since the start, by function number; first calls included."""
        return {number: count for number, count in enumerate(self._counts.copy()) if count}

    def _launch(self, noted: float) -> FunctionLaunch:
        function, since = divmod(noted, SPAN)
        return FunctionLaunch(round((self._began + since) * 1e9), int(function))


T = TypeVar("T")


def _if_there(make: Callable[[Any], T], argument: Any) -> T | None:
    try:
        return make(argument)
    except jaxprivate.Missing:
        return None
