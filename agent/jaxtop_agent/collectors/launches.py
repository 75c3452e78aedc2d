"""How often each compiled function was launched, counted by JAX's own post-launch hook."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from jaxtop_agent import jaxprivate

if TYPE_CHECKING:
    from collections.abc import Callable

# A program that makes new functions for ever must not make the agent grow for ever.
MOST_NAMES = 500
THE_REST = "(other functions)"

BLIND_SPOTS = "at least: not counted are first calls, and functions with host callbacks"
TAKEN = "off: JAX checks each launch itself (jax_debug_nans, jax_debug_infs)"


class Launches:
    """The hook runs on the user's thread after each launch: a lookup, an addition, nothing that raises."""

    name = "launches"

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._retired: dict[str, int] = {}
        self._alive: dict[int, weakref.ref[Any]] = {}
        self._slot = jaxprivate.LaunchHook()
        self._hook = self._make_hook()
        self._in_threads = self._thread_hooks()

    def _make_hook(self) -> Callable[[Any, Any, Any, Any], None]:
        counts = self._counts
        first_sight = self._first_sight

        def hook(fun: Any, args: Any, kwargs: Any, out: Any) -> None:  # noqa: ARG001 - JAX's signature
            key = id(fun)
            if key in counts:
                counts[key] += 1
            else:
                first_sight(key, fun)

        return hook

    def _first_sight(self, key: int, fun: Any) -> None:
        try:
            name = str(getattr(fun, "__name__", None) or type(fun).__name__)

            def forget(_: object) -> None:
                # Another function may get this id: what was counted moves to the name.
                count, known_as = self._counts.pop(key, 0), self._names.pop(key, THE_REST)
                self._retired[known_as] = self._retired.get(known_as, 0) + count
                self._alive.pop(key, None)

            self._alive[key] = weakref.ref(fun, forget)
            if len(self._names) + len(self._retired) >= MOST_NAMES and name not in self._retired:
                name = THE_REST
            self._names[key] = name
            self._counts[key] = 1
        except Exception:  # a launch that is not counted harms nobody
            pass

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
        totals = dict(self._retired)
        for key, count in self._counts.copy().items():
            name = self._names.get(key, THE_REST)
            totals[name] = totals.get(name, 0) + count
        return totals
