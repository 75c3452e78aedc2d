"""The numbers that a script logs with MLflow and Trackio, noted when these libraries have taken them.

They go to a server or into a database, so there is no file to follow. A database is not opened a second time
in this process either: closing it would drop the locks that SQLite holds on it for the script.

Nothing is imported here. The methods of a library are wrapped once it is loaded: at the start, after each
compilation, and in every turn of the ledger.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import deque
from contextlib import suppress
from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop_agent import jaxprivate
from jaxtop_agent.steps.reports import is_ready, number_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# The most values of one call that are noted, and the most until the ledger takes them.
MOST_OF_A_CALL, MOST_NOTED = 1024, 4096
# A larger step is not a step; it would not fit into a message.
LARGEST_STEP = 1 << 53
# MLflow's own figures of the machine are not scalars of the script.
_SYSTEM = "system/"
_OF_NUMPY, _NO_NUMBERS = frozenset({"numpy", "ml_dtypes"}), frozenset({"ndarray", "bool", "bool_", "str_"})


class LoggedCall(NamedTuple):
    """A number that a tracker has taken: which tracker, into which of its runs, name, step and value."""

    tracker: str
    run: str
    name: str
    step: int
    value: float


class LogTarget(NamedTuple):
    """Where a script logs: the tracker's own object, the run's name or id, and the largest step so far."""

    client: Any
    run: str
    step: int


class _Method(NamedTuple):
    """A method that logs: whose it is, its arguments, and what finds run, name, value and step in a call."""

    tracker: str
    module: str
    type: str
    name: str
    arguments: tuple[str, ...]
    read: Callable[[Any, dict[str, Any]], Iterable[tuple[str, str, Any, Any]]]


def _metric(_: Any, given: dict[str, Any]) -> Iterable[tuple[str, str, Any, Any]]:
    return ((given["run_id"], given["key"], given["value"], given.get("step") or 0),)


def _batch(_: Any, given: dict[str, Any]) -> Iterator[tuple[str, str, Any, Any]]:
    for each in islice(given.get("metrics", ()), MOST_OF_A_CALL):
        yield given["run_id"], each.key, each.value, each.step or 0


def _trackio(run: Any, given: dict[str, Any]) -> Iterator[tuple[str, str, Any, Any]]:
    step = given.get("step")
    if step is None:
        step = run._next_step - 1  # of versions that have none, only given steps are known
    for name, value in islice(given["metrics"].items(), MOST_OF_A_CALL):
        # Trackio takes no arrays, and stores flags as flags.
        kind = type(value)
        if kind in {int, float} or (kind.__module__ in _OF_NUMPY and kind.__name__ not in _NO_NUMBERS):
            yield run.name, name, value, step


_OF_MLFLOW = "mlflow", "mlflow.tracking._tracking_service.client", "TrackingServiceClient"
METHODS = (
    _Method(*_OF_MLFLOW, "log_metric", ("run_id", "key", "value", "timestamp", "step"), _metric),
    _Method(*_OF_MLFLOW, "log_batch", ("run_id", "metrics"), _batch),
    _Method("trackio", "trackio.run", "Run", "log", ("metrics", "step"), _trackio),
)


class TrackerCalls:
    """Wraps the methods of trackers on the user's threads; they only note, after the method has returned."""

    name = "trackers"

    def __init__(self) -> None:
        self._noted: deque[LoggedCall] = deque(maxlen=MOST_NOTED)
        self._has_gap = self._is_closed = False
        self._absent = list(METHODS)
        self._wrapped: list[tuple[_Method, type, Any, Any]] = []
        self._wrapping = threading.Lock()
        self._last: dict[str, tuple[Callable[[], Any], str, int]] = {}
        self._listeners: jaxprivate.MonitoringListeners | None = None

    def install(self) -> str:
        with suppress(jaxprivate.Missing):  # then the ledger looks for the libraries, every two seconds
            self._listeners = jaxprivate.MonitoringListeners(_ignore, self._after_event, _ignore)
            self._listeners.register()
        self.wrap_new()
        return "on"

    def uninstall(self) -> None:
        """Put the methods back, unless somebody else has replaced ours; from then on ours only pass on."""
        self._is_closed = True
        for method, owner, original, ours in self._wrapped:
            if vars(owner).get(method.name) is ours:
                setattr(owner, method.name, original)
        for each in (self._wrapped, self._noted, self._last):
            each.clear()
        if self._listeners is not None:
            self._listeners.unregister()

    def wrap_new(self) -> None:
        """Wrap the methods of libraries that have been imported since the last time."""
        if not any(each.module in sys.modules for each in self._absent):
            return
        if not self._wrapping.acquire(blocking=False):  # another thread is about to
            return
        try:
            for each in list(self._absent):
                module = sys.modules.get(each.module)
                if module is None or getattr(module.__spec__, "_initializing", False):
                    continue
                self._absent.remove(each)
                with suppress(Exception):  # a version without these names: nothing of it is known
                    self._wrap(each, getattr(module, each.type))
        finally:
            self._wrapping.release()

    def forget(self) -> None:
        """In a forked child: what was noted, and the run, are the parent's."""
        self._noted.clear()
        self._last.clear()

    def take_calls(self) -> tuple[list[LoggedCall], bool]:
        """Return what was noted since the last time, and whether there was more before it."""
        has_gap, self._has_gap = self._has_gap, False
        return [self._noted.popleft() for _ in range(len(self._noted))], has_gap

    def last(self, tracker: str) -> LogTarget | None:
        """Return where the script logged last with a tracker; None if it has not, or its object is gone."""
        client, run, step = self._last.get(tracker, (_ignore, "", 0))
        found = client()
        return None if found is None else LogTarget(found, run, step)

    def original(self, tracker: str, name: str) -> Callable[..., Any] | None:
        """Return a method as it is without us; None if it is not wrapped."""
        for method, _, original, _ in list(self._wrapped):
            if (method.tracker, method.name) == (tracker, name):
                found: Callable[..., Any] = original
                return found
        return None

    def _after_event(self, *_: object, **__: object) -> None:
        if self._absent:
            with suppress(Exception):  # an error here must not stop the user's compilation
                self.wrap_new()

    def _wrap(self, method: _Method, owner: type) -> None:
        original = vars(owner)[method.name]
        ours = self._noting(method, original)
        setattr(owner, method.name, ours)
        self._wrapped.append((method, owner, original, ours))

    def _noting(self, method: _Method, original: Any) -> Any:
        tracker, names, read = method.tracker, method.arguments, method.read

        @wraps(original)
        def noting(owner: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(owner, *args, **kwargs)
            if not self._is_closed:
                with suppress(Exception):  # nothing of ours may reach the script
                    self._note(tracker, owner, read(owner, dict(zip(names, args, strict=False)) | kwargs))
            return result

        return noting

    def _note(self, tracker: str, owner: Any, values: Iterable[tuple[str, str, Any, Any]]) -> None:
        run, step, count = "", None, 0
        for run, name, value, at in values:
            number, step, count = _number(value), int(at), count + 1
            is_name = type(name) is str and not name.startswith(_SYSTEM)
            if number is not None and is_name and abs(step) <= LARGEST_STEP:
                self._has_gap |= len(self._noted) == MOST_NOTED
                self._noted.append(LoggedCall(tracker, str(run), name, step, number))
        self._has_gap |= count == MOST_OF_A_CALL
        if step is not None:
            # A client of MLflow belongs to one call, and is small; a run of Trackio belongs to the script.
            client = weakref.ref(owner) if tracker == "trackio" else lambda: owner
            _, before, largest = self._last.get(tracker, (None, "", step))
            self._last[tracker] = client, str(run), max(step, largest) if before == str(run) else step


def _number(value: Any) -> float | None:
    """Return a number that a library has already converted; None for other values.

    An array of JAX is on the host by then. One that is not ready is not waited for.
    """
    try:
        if isinstance(value, int | float):
            return float(value)
        if type(value).__module__ in _OF_NUMPY:
            return float(value.item())
        if hasattr(type(value), "is_ready") and is_ready(value):
            return number_of(value)
    except Exception:  # too large, or not a single number
        pass
    return None


def _ignore(*_: object, **__: object) -> None:
    return None
