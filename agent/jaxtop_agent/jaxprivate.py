"""All access to private names of JAX.

JAX is read through `sys.modules`: nothing here imports it, initialises a backend or runs an operation.
A name that this version lacks raises `Missing`, which turns off only the features that need it.
"""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from itertools import chain
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType


# The types of JAX's own compiled functions: `ufunc` for `jax.numpy.multiply` and similar ones.
_COMPILED_TYPES = ("PjitFunction", "ufunc")
MUCH_MORE = 8
# JAX reports a compilation within this many calls below the launch of a new function.
_COMPILES_WITHIN = 16
_AHEAD_OF_TIME = re.compile(r"PjitFunction\((?:jit\()?([^()]+)\)")


class Missing(Exception):
    """This JAX lacks the requested name."""


def _module(name: str) -> Any:
    module = sys.modules.get(name)
    if module is None:
        raise Missing(f"{name} is not imported")
    return module


def _find(owner: Any, *names: str) -> Any:
    for name in names:
        found = getattr(owner, name, None)
        if found is not None:
            return found
    raise Missing(f"no {' or '.join(names)} in {getattr(owner, '__name__', owner)}")


def versions() -> tuple[str | None, str | None]:
    """Return the versions of jax and jaxlib."""
    jax, jaxlib = sys.modules.get("jax"), sys.modules.get("jaxlib")
    return getattr(jax, "__version__", None), getattr(jaxlib, "__version__", None)


def default_client() -> Any | None:
    """Return the client of the default backend; None until all backends are up. Never wait for them."""
    bridge = _module("jax._src.xla_bridge")
    check = getattr(sys.modules.get("jax._src.config"), "debug_leaked_clients_on_clear_backends", None)
    if check is not None and check.value:
        # While we use the client, we hold a reference to it, and JAX would raise in a script that clears its
        # backends.
        raise Missing("jax_debug_leaked_clients_on_clear_backends is set: nobody may hold a client of JAX")
    lock = getattr(bridge, "_backend_lock", None)
    # `backends_are_initialized()` would wait for a lock that a slow initialisation holds for minutes.
    if not bridge._backends or (lock is not None and lock.locked()):
        return None
    return bridge._default_backend


def clients() -> tuple[Any, ...]:
    """Return the clients of all backends that are up."""
    return tuple(_module("jax._src.xla_bridge")._backends.values())


def live_arrays() -> list[Any]:
    """Return every live array of this process. Drop the list at once: it keeps device memory alive."""
    return list(chain.from_iterable(client.live_arrays() for client in clients()))


def array_type() -> type:
    """Return the type of JAX's arrays."""
    found: type = _find(_module("jax._src.array"), "ArrayImpl")
    return found


# Classes of JAX whose objects are shown as the one value they hold, with the attributes that may hold it.
BOXES: dict[str, tuple[str, ...]] = {
    "PRNGKeyArray": ("_base_array",),
    "Ref": ("_refs",),
    "ArrayRef": ("_refs", "_buf"),  # its name before 0.8
    "ArrayRefImpl": ("_buf",),
    "MutableArray": ("_buf",),
}
# Classes of JAX whose attributes hold a script's arrays; derived classes count as well.
HOLDERS = frozenset({"JAXSparse", "Partial", "gaussian_kde"})


def hlo_sharding(sharding: Any) -> Any | None:
    """Return the compiler's form of a sharding that has no mesh."""
    return getattr(sharding, "_hlo_sharding", None)


def tiles(sharding: Any) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the number of pieces of each dimension in such a sharding, and the device ids in order."""
    hlo = hlo_sharding(sharding)
    assigned = tuple(device.id for device in _find(sharding, "_device_assignment"))
    if hlo is None:
        return None
    if hlo.is_replicated():
        return (), assigned
    cut = tuple(hlo.tile_assignment_dimensions())
    if hlo.replicate_on_last_tile_dim():
        cut = cut[:-1]
    return cut, tuple(assigned[i] for i in hlo.tile_assignment_devices())


def default_memory(device: Any) -> str | None:
    """Return the kind of memory in which a device places arrays by default."""
    try:
        return str(device.default_memory().kind)
    except Exception:  # backends without memory spaces
        return None


def local_devices(owner: Any) -> list[Any]:
    """Return the devices of a client or a program that belong to this process."""
    return list(_find(owner, "local_devices")())


def live_executables() -> list[Any]:
    """Return every loaded program, newest first per client. Drop the list soon, as for `live_arrays`."""
    return [executable for client in clients() for executable in _find(client, "live_executables")()]


def fingerprint(executable: Any) -> Any | None:
    """Return the compiler's identification of a program, equal in all processes that compiled the same."""
    return getattr(executable, "fingerprint", None)


def module_name(executable: Any) -> str:
    """Return the name of a program: its function's name with a prefix."""
    return str(_find(executable, "hlo_modules")()[0].name)


def module(executable: Any) -> Any:
    """Return the optimized module of a program, as the compiler left it."""
    return _find(executable, "hlo_modules")()[0]


def parts(module: Any) -> list[Any]:
    """Return the computations of a module, each with a name."""
    return list(module.computations())


def instructions(computation: Any) -> list[Any]:
    """Return a computation's instructions, with opcode and text.

    Raise `Missing` on versions that can only print a whole module.
    """
    return list(_find(computation, "instructions")())


def module_number(module: Any) -> int | None:
    """Return the compiler's number of a module, as in traces; serialising the module holds the GIL."""
    found: bytes = _find(module, "as_serialized_hlo_module_proto")()
    at = 0
    while at < len(found):
        tag, at = _varint(found, at)
        field, kind = tag >> 3, tag & 7
        if kind not in {0, 2}:  # XLA's message uses no other kinds here
            return None
        value, at = _varint(found, at)
        if field == 5 and kind == 0:
            return value
        at += value if kind == 2 else 0
    return None


def _varint(found: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = found[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def module_text(module: Any, *, brief: bool) -> str:
    """Return the text of a module; printing holds the GIL for 15 µs per computation, 6 µs if brief."""
    if not brief:
        return str(module.to_string())
    printer = next(
        (
            sys.modules[name]
            for name in ("jaxlib._hlo", "jaxlib._jax", "jaxlib.xla_extension")
            if name in sys.modules
        ),
        None,
    )
    options = _find(printer, "HloPrintOptions")()
    for detail in ("metadata", "operand_shape", "control_dependencies", "program_shape", "percent"):
        setattr(options, f"print_{detail}", False)
    options.include_layout_in_shapes = False
    return str(module.to_string(options))


def platform(executable: Any) -> str:
    """Return the platform of a program's client."""
    return str(_find(executable, "client").platform)


def device_count(executable: Any) -> int:
    """Return the number of devices of a program's client, over all processes."""
    return len(_find(executable, "client").devices())


def code_bytes(executable: Any) -> int | None:
    """Return the size of the machine code, if the compiler reports it."""
    size = getattr(executable, "size_of_generated_code_in_bytes", None)
    return None if size is None else int(size())


def compiled_memory(executable: Any) -> Any:
    """Return the compiler's figures for a program's memory on one device; the call releases the GIL."""
    return _find(executable, "get_compiled_memory_stats")()


def program_traceback(executable: Any) -> Any | None:
    """Return the traceback of the place where a program was compiled."""
    return getattr(executable, "traceback", None)


def cuts(executable: Any) -> list[int]:
    """Return the number of pieces of each input and output of a program, over all devices of the run.

    The list is empty if the compiler had nothing to partition, as in a program of one device.
    """
    sides = ("get_parameter_shardings", "get_output_shardings")
    shardings = [sharding for side in sides for sharding in _find(executable, side)() or ()]
    return [prod(sharding.tile_assignment_dimensions) for sharding in shardings]


def own_functions() -> frozenset[str]:
    """Return the names of JAX's own operations and functions, which scripts call with any shapes."""
    operations = getattr(sys.modules.get("jax._src.interpreters.mlir"), "_lowerings", ())
    names = {str(operation.name) for operation in operations}
    for name, module in sys.modules.copy().items():
        if name.startswith("jax.") and module is not None:
            found = list(vars(module).values())
            names.update(str(each.__name__) for each in found if type(each).__name__ in _COMPILED_TYPES)
    return frozenset(names)


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
            folder = str(_module("jax").__file__).rpartition("__init__")[0]
            initializes = _elements(closed.out_avals) > MUCH_MORE * _elements(closed.in_avals)
            return Compiles(place.startswith(folder) if found else None, initializes)
        frame = frame.f_back
    return Compiles()


def _elements(avals: Iterable[Any]) -> int:
    return sum(getattr(aval, "size", 0) for aval in avals)


def name_of(function: Any) -> str:
    """Return the name of a launched function, as its program has it."""
    name = getattr(function, "__name__", None)
    if name is None and not hasattr(function, "__wrapped__"):
        # Compiled ahead of time, it wraps no function of the script, and only this error contains the name.
        try:
            _ = function.__signature__
        except ValueError as error:
            found = _AHEAD_OF_TIME.search(str(error))
            name = found and found[1]
    return str(name or type(function).__name__)


def process_index(client: Any) -> int:
    """Return the index of this process in its run."""
    return int(_find(client, "process_index")())


def process_count(client: Any) -> int:
    """Return the number of processes in the run."""
    return len({device.process_index for device in _find(client, "devices")()})


def hardware_ordinal(device: Any) -> int | None:
    """Return the number of a device in the platform's runtime in this process, such as CUDA's ordinal."""
    ordinal = getattr(device, "local_hardware_id", None)
    return ordinal if isinstance(ordinal, int) and ordinal >= 0 else None


def memory_stats(device: Any) -> dict[str, int] | None:
    """Return the allocator's figures for a local device; None if its allocator does not count."""
    try:
        stats = device.memory_stats()
    except Exception:  # some backends raise where others return None
        return None
    return stats or None


class Coordination:
    """This process's access to JAX's coordination service.

    Use it only once the backends are up. Before that the client exists but is not connected, and JAX 0.10
    aborts the process and its peers when an unconnected client is used.
    """

    def __init__(self) -> None:
        state = _module("jax._src.distributed").global_state
        self._client = state.client
        self.address: str | None = state.coordinator_address

    @property
    def is_there(self) -> bool:
        """Whether this process is part of a multi-process run."""
        return self._client is not None

    def set(self, key: str, value: str, *, overwrite: bool) -> None:
        """Store a small value; block, for minutes if the coordinator does not answer."""
        self._client.key_value_set(key, value, allow_overwrite=overwrite)

    def get(self, key: str, seconds: float) -> str:
        """Return a value; wait for it at most `seconds`, then raise."""
        return str(self._client.blocking_key_value_get(key, int(seconds * 1000)))

    def meet(self, name: str, seconds: float) -> None:
        """Wait until all processes have reached this barrier; raise if they do not within `seconds`."""
        self._client.wait_at_barrier(name, int(seconds * 1000))

    def entries(self, prefix: str) -> dict[str, str]:
        """Return all values under a prefix; block like `set`."""
        return dict(self._client.key_value_dir_get(prefix))


class LaunchHook:
    """The slot whose function JAX calls after each launch on its fast path; `debug_nans` uses it as well."""

    def __init__(self) -> None:
        slot = getattr(sys.modules.get("jax._src.api"), "_post_hook_state", None)
        if slot is not None:
            self._get: Callable[[], Any] = _find(slot, "get_global")
            self._set: Callable[[Any], None] = _find(slot, "set_global")
            return
        state = _find(_find(sys.modules.get("jax._src.lib"), "jax_jit"), "global_state")()
        if not hasattr(state, "post_hook"):
            raise Missing("this JAX has no launch hook")
        self._get = lambda: state.post_hook
        self._set = lambda hook: setattr(state, "post_hook", hook)

    def get(self) -> Any:
        """Return the content of the slot."""
        return self._get()

    def set(self, hook: Any) -> None:
        """Set the content of the slot."""
        self._set(hook)


class ThreadHooks:
    """Keeps a launch hook in threads that JAX itself leaves without one.

    Many of JAX's own functions (`logsumexp`, `var`, ...) turn `debug_nans` off while they run. That sets the
    thread's own slot to None, which then hides the common slot permanently: after its first loss, a training
    program's launches would no longer be counted. So where JAX leaves None in a thread's slot, we set the
    hook; where JAX leaves its own check, we keep that.
    """

    def __init__(self, hook: Any) -> None:
        slot = _find(_module("jax._src.api"), "_post_hook_state")
        config = _module("jax._src.config")
        self._get_local: Callable[[], Any] = _find(slot, "get_local")
        self._set_local: Callable[[Any], None] = _find(slot, "set_local")
        self._states = (_find(config, "debug_nans"), _find(config, "debug_infs"))
        self._originals = [_find(state, "_update_thread_local_hook") for state in self._states]
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
        self._owner = _find(_module("jax._src.interpreters.pxla"), "ExecuteReplicated")
        self._original = _find(self._owner, "__call__")
        self._put = _ReportedMethod(self._original, on_launch)

    def install(self) -> None:
        """Replace JAX's method with the descriptor."""
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

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self._original
        with suppress(Exception):  # an error must not stop the launch
            self._on_launch(instance.name)
        return self._original.__get__(instance, owner)


class CompileListeners:
    """Listeners of JAX's monitoring, used to follow compilations."""

    def __init__(self, on_scalar: Callable[..., None], on_duration: Callable[..., None]) -> None:
        self._monitoring = _module("jax._src.monitoring")
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
            _find(self._monitoring, *names)(listener)


class Profiler:
    """JAX's profiler, with checks for other uses of it in this process."""

    # jaxlib's error if another session started first.
    ALREADY = "ALREADY_EXISTS"

    def __init__(self) -> None:
        self._lib = _find(_module("jax._src.lib"), "_profiler")
        self._jax = _module("jax._src.profiler")
        self.state = _find(self._jax, "_profile_state")  # its `lock` guards the script's own profile
        _find(self.state, "lock")
        _find(_find(self._lib, "ProfilerSession"), "stop")
        _find(_module("jax.profiler"), "ProfileData")
        version = _find(_module("jaxlib"), "__version__").split(".")
        self._version = (int(version[0]), int(version[1]))

    @property
    def is_noisy(self) -> bool:
        """Whether each session prints two lines to the script's standard error, as up to 0.7.2."""
        return self._version < (0, 8)

    @property
    def frees_the_gil(self) -> bool:
        """Whether stopping a session releases the GIL: 0.10 does, 0.8 does not."""
        return self._version >= (0, 10)

    def in_use(self) -> str | None:
        """Return what uses the profiler now, if anything; the caller holds the lock."""
        if self.state.profile_session is not None:
            return "the script's own profile is running"
        if self._lib.TraceMe.is_enabled():
            return "another profiler is running"
        pgle = getattr(sys.modules.get("jax._src.config"), "enable_pgle", None)
        if pgle is not None and pgle.value:
            return "profile-guided compilation uses the profiler (jax_enable_pgle)"
        return None

    def has_server(self) -> bool:
        """Whether a profile can be requested from outside the process, which takes no lock."""
        return getattr(self._jax, "_profiler_server", None) is not None

    def start(self) -> Any:
        """Start a session, which traces everything that runs from now on."""
        options = (getattr(self._lib, "ProfileOptions", None) or _find(self._jax, "ProfileOptions"))()
        options.python_tracer_level = 0
        options.host_tracer_level = (
            1 if self._version >= (0, 10) else 2
        )  # the level that contains the operations
        options.enable_hlo_proto = False
        options.raise_error_on_start_failure = True
        return self._lib.ProfilerSession(options)

    def stop(self, session: Any) -> Any:
        """End the session and return the trace."""
        if self.frees_the_gil and hasattr(session, "stop_and_get_profile_data"):
            return session.stop_and_get_profile_data()
        return _module("jax.profiler").ProfileData.from_serialized_xspace(session.stop())


def features() -> dict[str, str]:
    """Return for each feature "on", or why it does not work with this JAX; JAX must be imported."""
    checks: Iterable[tuple[str, Callable[[], object]]] = (
        ("backends", default_client),
        ("coordination", Coordination),
        ("launches", LaunchHook),
        ("compiles", lambda: CompileListeners(_ignore, _ignore)),
        ("programs", live_executables),
        ("collectives", Profiler),
    )
    found = {}
    for name, check in checks:
        try:
            check()
            found[name] = "on"
        except Exception as error:
            found[name] = f"off: {error or type(error).__name__}"
    return found


def _ignore(*_: object, **__: object) -> None:
    pass
