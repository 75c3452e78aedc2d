"""The moment before JAX makes its first backend, or joins a run of several processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jaxtop_agent.jaxprivate.lookup import find, imported

if TYPE_CHECKING:
    from collections.abc import Callable

INITIALIZE = "initialize"


def when_backends_start(then: Callable[[], None]) -> Callable[[], None]:
    """Call `then` once, before JAX makes its first backend, or at once if it has; return what cancels.

    `then` runs on the thread that needs the backend, and must not raise. No frame of ours is on its stack
    while JAX works: it would be in the traceback of an error.
    """
    bridge = imported("jax._src.xla_bridge")
    distributed = imported("jax._src.distributed")
    if bridge._backends or distributed.global_state.client is not None:
        then()
        return _nothing
    # Without these names: `Missing`, and the agent starts with the import of JAX.
    lock, state = find(bridge, "_plugin_lock"), find(distributed, "State")
    start = _FirstStart(bridge, lock, state, then)
    start.wait()
    return start.cancel


def _nothing() -> None:
    pass


class _FirstStart:
    """Stands in for two names of JAX, once: the lock that it takes first of all, and how it joins a run."""

    def __init__(self, bridge: Any, lock: Any, state: Any, then: Callable[[], None]) -> None:
        self._bridge, self.lock, self._state = bridge, lock, state
        self.initialize = vars(state)[INITIALIZE]
        self._then = [then]  # the thread that takes it calls it

    def wait(self) -> None:
        self._bridge._plugin_lock = _LockProxy(self)
        setattr(self._state, INITIALIZE, _MethodProxy(self))

    def cancel(self) -> None:
        """Put JAX's own back, unless someone else has replaced ours."""
        self._then.clear()
        if isinstance(self._bridge._plugin_lock, _LockProxy):
            self._bridge._plugin_lock = self.lock
        if isinstance(vars(self._state).get(INITIALIZE), _MethodProxy):
            setattr(self._state, INITIALIZE, self.initialize)

    def begins(self) -> None:
        try:
            then = self._then.pop()
        except IndexError:
            return
        self.cancel()
        then()


class _LockProxy:
    """JAX's lock, which says when it is entered."""

    def __init__(self, start: _FirstStart) -> None:
        self._start = start

    def __enter__(self) -> Any:
        self._start.begins()
        return self._start.lock.__enter__()

    def __exit__(self, *error: object) -> Any:
        return self._start.lock.__exit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._start.lock, name)


class _MethodProxy:
    """JAX's method, which says when it is looked up."""

    def __init__(self, start: _FirstStart) -> None:
        self._start = start

    def __get__(self, instance: Any, owner: type) -> Any:
        self._start.begins()
        return self._start.initialize.__get__(instance, owner)
