"""JAX's reports about compilations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop_agent.jaxprivate.lookup import find, imported, jax_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

    from jaxtop_agent.jaxprivate.declarations import (
        AllArguments,
        JitInfo,
        JitOptions,
        Launch,
        Lowered,
        LoweredArguments,
        Name,
        Names,
        Primitive,
    )

MUCH_MORE = 8
# JAX reports a compilation within this many calls below the launch of a new function.
_COMPILES_WITHIN = 16
_IMPLEMENTS: Name = "_pjit_call_impl_python"
# Without it: the same function has the other name in that version.
_LAUNCHERS: Names = ("_run_python_pjit", "_python_pjit_helper", "reraise_with_filtered_traceback")


class FunctionToCompile(NamedTuple):
    """Facts about a function that is being compiled. Drop them soon: they hold objects of the script.

    `of_jax` says whether JAX itself defines it; None if that is unknown. `initializes` says that it returns
    far more elements than it takes, like functions that create the first values of layers. `defined` is its
    name and line, "step at /home/me/train.py:7". Then its array arguments by name, with a sharding of None
    where the array may be anywhere, and its static arguments. `function` is None where JAX compiles what it
    derived from the function, as by differentiation, or ahead of time. `options` identifies those of
    `jax.jit`, `settings` has the values of JAX's settings that change programs.
    """

    of_jax: bool | None = None
    initializes: bool = False
    defined: str = ""
    names: tuple[str, ...] = ()
    avals: tuple[Any, ...] = ()
    shardings: tuple[Any, ...] = ()
    statics: tuple[tuple[str, Any], ...] = ()
    function: Any = None
    options: int = 0
    settings: tuple[Any, ...] = ()
    # Whether JAX was launching the function itself, so that `statics` and `function` are all there is.
    is_launch: bool = False


def being_compiled(frame: FrameType | None) -> FunctionToCompile:
    """Return the facts about the function whose compilation this frame belongs to, as far as they are known.

    Only frames of JAX are read: reading those of the script could keep its values alive.
    """
    found, folder = FunctionToCompile(), jax_folder()
    for _ in range(_COMPILES_WITHIN):
        # Reading the values of a traced frame would discard those that a debugger has set.
        if frame is None or frame.f_trace is not None or not frame.f_code.co_filename.startswith(folder):
            break
        name = frame.f_code.co_name
        if name == "compile" and not found.defined:
            found = _with_arguments(found, frame.f_locals.get("self"), folder)
        elif name == "cache_miss":
            return _with_launch(found, frame.f_locals, frame.f_back)
        elif found.defined and name not in _LAUNCHERS and name != _IMPLEMENTS:
            break
        frame = frame.f_back
    return found


def _with_arguments(found: FunctionToCompile, computation: Lowered, folder: str) -> FunctionToCompile:
    """Add what a lowered computation says about itself."""
    facts: LoweredArguments = getattr(computation, "compile_args", None) or {}
    info: AllArguments = facts.get("all_args_info")
    if info is None:
        return found
    source = str(info.debug_info.func_src_info)  # "step at /home/me/train.py:7"
    _, is_known, place = source.partition(" at ")
    avals = tuple(info.in_avals)
    names = tuple(info.debug_info.arg_names or ())
    names = tuple(
        str(name or f"constant {i}") for i, name in enumerate(("",) * (len(avals) - len(names)) + names)
    )
    if len(names) != len(avals) or len(set(names)) < len(names):
        names = tuple(f"argument {i}" for i in range(len(avals)))
    in_avals, out_avals = facts.get("global_in_avals", ()), facts.get("global_out_avals", ())
    return found._replace(
        of_jax=place.startswith(folder) if is_known else None,
        initializes=_elements(out_avals) > MUCH_MORE * _elements(in_avals),
        defined=source,
        names=names,
        avals=avals,
        shardings=_shardings(facts, len(avals)),
        settings=_settings(),
    )


def _shardings(facts: LoweredArguments, count: int) -> tuple[Any, ...]:
    """Return the sharding of each argument; None for those that may be anywhere, and for unused ones."""
    given = tuple(facts.get("in_shardings") or ())
    places = sorted(facts.get("kept_var_idx") or ())
    if len(given) == count:
        places = list(range(count))
    found: list[Any] = [None] * count
    if len(places) == len(given):
        for place, sharding in zip(places, given, strict=True):
            if place < count and type(sharding).__name__ != "UnspecifiedValue":
                found[place] = sharding
    return tuple(found)


def _settings() -> tuple[Any, ...]:
    context = getattr(imported("jax._src.config"), "trace_context", None)
    return () if context is None else tuple(context())


def setting_names() -> tuple[str, ...]:
    """Return the names of `FunctionToCompile.settings`; none on versions that do not list them."""
    # Without it: a changed setting is reported without its name.
    listed = getattr(imported("jax._src.config"), "trace_context_names", None)
    try:
        return () if listed is None else tuple(map(str, listed()))
    except NotImplementedError:
        return ()


def _with_launch(found: FunctionToCompile, facts: Launch, outer: FrameType | None) -> FunctionToCompile:
    """Add what the call of a compiled function says: its static arguments, and which function it is."""
    info, args, kwargs = facts.get("jit_info"), facts.get("args", ()), facts.get("kwargs", {})
    if info is None:
        return found
    found = found._replace(
        function=facts.get("fun"),
        statics=tuple(_statics(info, args, kwargs)),
        options=_options(info),
        is_launch=True,
    )
    while outer is not None and outer.f_code.co_name in _LAUNCHERS:
        outer = outer.f_back
    if outer is not None and outer.f_code.co_name == "apply_primitive" and outer.f_trace is None:
        # JAX makes a function of its own for each set of parameters of an operation.
        inner: Primitive = outer.f_locals
        parameters = inner.get("params") or {}
        return found._replace(function=inner.get("prim"), statics=tuple(parameters.items()), options=0)
    return found


def _statics(info: JitInfo, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    signature = info.fun_signature
    names = [] if signature is None else list(signature.parameters)
    for place in info.static_argnums:
        if 0 <= place < len(args):
            yield names[place] if place < len(names) else f"argument {place}", args[place]
    for name in info.static_argnames:
        if name in kwargs:
            yield name, kwargs[name]


_OPTIONS: JitOptions = (
    "donate_argnums", "donate_argnames", "keep_unused", "in_shardings_leaves", "out_shardings_leaves",
    "in_layouts_leaves", "out_layouts_leaves", "compiler_options_kvs",
)  # fmt: skip


def _options(info: JitInfo) -> int:
    try:
        return hash(tuple(getattr(info, name, None) for name in _OPTIONS))
    except TypeError:
        return 0


def has_persistent_cache() -> bool:
    """Return whether JAX looks for compiled programs in files; False where that is unknown."""
    check = getattr(imported("jax._src.compilation_cache"), "is_persistent_cache_enabled", None)
    return bool(check()) if check is not None else False


def _elements(avals: Iterable[Any]) -> int:
    return sum(getattr(aval, "size", 0) for aval in avals)


class MonitoringListeners:
    """Listeners of JAX's monitoring, to which libraries report, too."""

    def __init__(
        self,
        on_scalar: Callable[..., None],
        on_duration: Callable[..., None],
        on_event: Callable[..., None],
    ) -> None:
        self._monitoring = imported("jax._src.monitoring")
        self._on_scalar, self._on_duration, self._on_event = on_scalar, on_duration, on_event
        self._registers = (
            (self._monitoring.register_scalar_listener, on_scalar),
            (self._monitoring.register_event_duration_secs_listener, on_duration),
            (self._monitoring.register_event_listener, on_event),
        )

    def register(self) -> None:
        for register, listener in self._registers:
            register(listener)

    def unregister(self) -> None:
        """Remove our own listeners only; in older versions the function has a private name."""
        owner = self._monitoring
        scalar = find(owner, "unregister_scalar_listener", "_unregister_scalar_listener_by_callback")
        duration = find(
            owner, "unregister_event_duration_listener", "_unregister_event_duration_listener_by_callback"
        )
        event = find(owner, "unregister_event_listener", "_unregister_event_listener_by_callback")
        scalar(self._on_scalar)
        duration(self._on_duration)
        event(self._on_event)
