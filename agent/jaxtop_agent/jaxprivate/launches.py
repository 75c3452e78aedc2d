"""The hooks that JAX calls at each launch."""

from __future__ import annotations

from contextlib import suppress
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from jaxtop.base.names import unwrapped
from jaxtop_agent.jaxprivate.errors import LAUNCHES_SLOWLY
from jaxtop_agent.jaxprivate.lookup import find, imported

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop_agent.jaxprivate.declarations import ExecuteReplicated


def name_of(function: Any) -> str:
    """Return the name of a launched function, as its program has it."""
    name = getattr(function, "__name__", None)
    if name is None:
        # JAX makes functions of its own for programs that were compiled ahead of time, and for calls of a
        # compiled function that a transformation such as `jax.grad` evaluates. Only their state has the name.
        with suppress(KeyError, TypeError):
            name = unwrapped(function.__getstate__()["function_name"])
    return str(name or type(function).__name__)


def code_of(function: Any) -> CodeType | None:
    """Return the code of the function that was jitted; None if that is an object of another kind."""
    wrapped = getattr(function, "__wrapped__", None)
    return wrapped.__code__ if type(wrapped) is FunctionType else None


class LaunchHook:
    """The slot whose function JAX calls after each launch on its fast path; `debug_nans` uses it as well."""

    def __init__(self) -> None:
        slot = find(imported("jax._src.api"), "_post_hook_state")
        self.get: Callable[[], Any] = find(slot, "get_global")
        self.set: Callable[[Any], None] = find(slot, "set_global")


class ThreadHooks:
    """Keeps a launch hook in threads that JAX itself leaves without one.

    Many of JAX's own functions (`logsumexp`, `var`, ...) turn `debug_nans` off while they run. That sets the
    thread's own slot to None, which then hides the common slot permanently: after its first loss, a training
    program's launches would no longer be counted. So where JAX leaves None in a thread's slot, we set the
    hook; where JAX leaves its own check, we keep that.
    """

    def __init__(self, hook: Any) -> None:
        slot = find(imported("jax._src.api"), "_post_hook_state")
        config = imported("jax._src.config")
        self._get_local: Callable[[], Any] = find(slot, "get_local")
        self._set_local: Callable[[Any], None] = find(slot, "set_local")
        self._states = (find(config, "debug_nans"), find(config, "debug_infs"))
        self._originals = [find(state, "_update_thread_local_hook") for state in self._states]
        self._hook = hook

    def install(self) -> None:
        """Follow the slots of all threads; fill that of this thread if JAX has already left it empty."""
        for state, original in zip(self._states, self._originals, strict=True):
            state._update_thread_local_hook = self._followed_by_us(original)
        self._fill()

    def uninstall(self) -> None:
        """Restore JAX's functions, and the slot of this thread."""
        for state, original in zip(self._states, self._originals, strict=True):
            state._update_thread_local_hook = original
        if self._get_local() is self._hook:
            self._set_local(None)

    def _followed_by_us(self, original: Callable[[Any], None]) -> Callable[[Any], None]:
        def update(value: Any) -> None:
            original(value)
            self._fill()

        return update

    def _fill(self) -> None:
        if self._get_local() is None:
            self._set_local(self._hook)


class SlowLaunches:
    """Reports each launch that JAX makes outside its fast path, where the launch hook is not called.

    These are first calls, and all calls of functions that take a `jax.Ref` or call back into Python. JAX
    makes them with `ExecuteReplicated.__call__`. A descriptor replaces that method: looking the method up
    reports the launch and returns JAX's method, so that the script's tracebacks contain no frame of ours.
    """

    def __init__(self, on_launch: Callable[[str], None]) -> None:
        self._owner = find(imported(LAUNCHES_SLOWLY), "ExecuteReplicated")
        self._original = find(self._owner, "__call__")
        self._put = _ReportedMethod(self._original, on_launch)

    def install(self) -> None:
        self._owner.__call__ = self._put

    def uninstall(self) -> None:
        """Restore JAX's method, unless other code has replaced it since."""
        if self._owner.__dict__.get("__call__") is self._put:
            self._owner.__call__ = self._original


class _ReportedMethod:
    """A descriptor that reports each look-up with the `name` of the object, such as "jit(step)"."""

    def __init__(self, original: Any, on_launch: Callable[[str], None]) -> None:
        self._original = original
        self._on_launch = on_launch

    def __get__(self, instance: ExecuteReplicated, owner: type | None = None) -> Any:
        if instance is None:
            return self._original
        with suppress(Exception):  # an error must not stop the launch
            self._on_launch(instance.name)
        return self._original.__get__(instance, owner)
