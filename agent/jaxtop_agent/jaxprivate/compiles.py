"""What JAX reports about compilations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop_agent.jaxprivate.lookup import find, imported, jax_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType

MUCH_MORE = 8
# JAX reports a compilation within this many calls below the launch of a new function.
_COMPILES_WITHIN = 16


class Compiles(NamedTuple):
    """Facts about a function that is being compiled.

    `of_jax` says whether JAX itself defines it; None if that is unknown. `initializes` says that it returns
    far more elements than it takes, like functions that create the first values of layers.
    """

    of_jax: bool | None = None
    initializes: bool = False


def being_compiled(frame: FrameType | None) -> Compiles:
    """Return the facts about the function whose compilation this frame belongs to.

    They are unknown for ahead-of-time compilations, and on older versions.
    """
    for _ in range(_COMPILES_WITHIN):
        if frame is None or frame.f_trace is not None:  # reading would discard a debugger's values
            break
        if frame.f_code.co_name == "_pjit_call_impl_python":
            closed = frame.f_locals["jaxpr"]
            source = str(closed.jaxpr.debug_info.func_src_info)  # "step at /home/me/train.py:7"
            _, found, place = source.partition(" at ")
            initializes = _elements(closed.out_avals) > MUCH_MORE * _elements(closed.in_avals)
            return Compiles(place.startswith(jax_folder()) if found else None, initializes)
        frame = frame.f_back
    return Compiles()


def _elements(avals: Iterable[Any]) -> int:
    return sum(getattr(aval, "size", 0) for aval in avals)


class CompileListeners:
    """Listeners of JAX's monitoring, used to follow compilations."""

    def __init__(self, on_scalar: Callable[..., None], on_duration: Callable[..., None]) -> None:
        self._monitoring = imported("jax._src.monitoring")
        self._listeners = {
            "scalar": (self._monitoring.register_scalar_listener, on_scalar),
            "event_duration": (self._monitoring.register_event_duration_secs_listener, on_duration),
        }

    def register(self) -> None:
        for register, listener in self._listeners.values():
            register(listener)

    def unregister(self) -> None:
        """Remove our own listeners only; in older versions the function has a private name."""
        for kind, (_, listener) in self._listeners.items():
            names = (f"unregister_{kind}_listener", f"_unregister_{kind}_listener_by_callback")
            find(self._monitoring, *names)(listener)
