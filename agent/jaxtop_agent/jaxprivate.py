"""Every private name of JAX that jaxtop touches, found one by one.

JAX is read through `sys.modules`: nothing here imports it, initialises a backend or runs an operation.
What a version lacks raises `Missing`, which switches off what needs it, and only that.
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


# The types of JAX's own compiled functions: of `jax.numpy.multiply` and its like, and of all others.
_COMPILED_TYPES = ("PjitFunction", "ufunc")
MUCH_MORE = 8
# So many calls inwards from the launch of a new function the compilation is told.
_COMPILES_WITHIN = 16
_AHEAD_OF_TIME = re.compile(r"PjitFunction\((?:jit\()?([^()]+)\)")


class Missing(Exception):
    """This JAX does not have what was asked for."""


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
    """Versions of jax and jaxlib."""
    jax, jaxlib = sys.modules.get("jax"), sys.modules.get("jaxlib")
    return getattr(jax, "__version__", None), getattr(jaxlib, "__version__", None)


def default_client() -> Any | None:
    """The client of the default backend, once all backends are up; never waits for them."""
    bridge = _module("jax._src.xla_bridge")
    check = getattr(sys.modules.get("jax._src.config"), "debug_leaked_clients_on_clear_backends", None)
    if check is not None and check.value:
        # While we look at it, we hold it; and JAX would raise in the script that clears its backends.
        raise Missing("jax_debug_leaked_clients_on_clear_backends is set: nobody may hold a client of JAX")
    lock = getattr(bridge, "_backend_lock", None)
    # `backends_are_initialized()` would wait for a lock that a slow initialisation holds for minutes.
    if not bridge._backends or (lock is not None and lock.locked()):
        return None
    return bridge._default_backend


def clients() -> tuple[Any, ...]:
    """The clients of all backends that are up."""
    return tuple(_module("jax._src.xla_bridge")._backends.values())


def live_arrays() -> list[Any]:
    """Every live array of this process. Drop the list at once: it keeps device memory alive."""
    return list(chain.from_iterable(client.live_arrays() for client in clients()))


def array_type() -> type:
    """The type of JAX's arrays."""
    found: type = _find(_module("jax._src.array"), "ArrayImpl")
    return found


# Objects of JAX that show as the one thing they hold, by the attributes that hold it.
BOXES: dict[str, tuple[str, ...]] = {
    "PRNGKeyArray": ("_base_array",),
    "Ref": ("_refs",),
    "ArrayRef": ("_refs", "_buf"),  # the same before 0.8
    "ArrayRefImpl": ("_buf",),
    "MutableArray": ("_buf",),
}
# Classes of JAX whose attributes hold a script's arrays; and those derived from them.
HOLDERS = frozenset({"JAXSparse", "Partial", "gaussian_kde"})


def hlo_sharding(sharding: Any) -> Any | None:
    """The compiler's form of a sharding that has no mesh."""
    return getattr(sharding, "_hlo_sharding", None)


def tiles(sharding: Any) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Into how many pieces such a sharding cuts each dimension, and the ids of the devices in their order."""
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
    """The kind of memory that arrays of a device lie in, unless told otherwise."""
    try:
        return str(device.default_memory().kind)
    except Exception:  # backends without memory spaces
        return None


def local_devices(owner: Any) -> list[Any]:
    """The devices of this process that a client, or a program, has."""
    return list(_find(owner, "local_devices")())


def live_executables() -> list[Any]:
    """Every loaded program, of each client the newest first. To be dropped soon, as `live_arrays`."""
    return [executable for client in clients() for executable in _find(client, "live_executables")()]


def fingerprint(executable: Any) -> Any | None:
    """What tells a program from others, the same in all processes that compiled the same."""
    return getattr(executable, "fingerprint", None)


def module_name(executable: Any) -> str:
    """The name of a program: that of its function, with a prefix."""
    return str(_find(executable, "hlo_modules")()[0].name)


def module(executable: Any) -> Any:
    """What a program was compiled from, as its compiler left it."""
    return _find(executable, "hlo_modules")()[0]


def parts(module: Any) -> list[Any]:
    """The computations of a module, each with a name."""
    return list(module.computations())


def instructions(computation: Any) -> list[Any]:
    """Those of a computation, with opcode and text; `Missing` on versions that only print a whole module."""
    return list(_find(computation, "instructions")())


def module_number(module: Any) -> int | None:
    """The number that the compiler gave a module, as in traces; the GIL is held while it is serialised."""
    found: bytes = _find(module, "as_serialized_hlo_module_proto")()
    at = 0
    while at < len(found):
        tag, at = _varint(found, at)
        field, kind = tag >> 3, tag & 7
        if kind not in {0, 2}:  # a message of XLA has no others here
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
    """The text of a whole module, written with the GIL held: 15 µs a computation, 6 µs if brief."""
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
    """The platform of a program's client."""
    return str(_find(executable, "client").platform)


def device_count(executable: Any) -> int:
    """How many devices all processes of a program's client have together."""
    return len(_find(executable, "client").devices())


def code_bytes(executable: Any) -> int | None:
    """The size of the machine code, where the compiler says it."""
    size = getattr(executable, "size_of_generated_code_in_bytes", None)
    return None if size is None else int(size())


def compiled_memory(executable: Any) -> Any:
    """What a program needs of one device, by the compiler; asked without the GIL."""
    return _find(executable, "get_compiled_memory_stats")()


def program_traceback(executable: Any) -> Any | None:
    """Where it was compiled."""
    return getattr(executable, "traceback", None)


def cuts(executable: Any) -> list[int]:
    """Over how many devices, of all processes, each input and output of a program is cut.

    Empty where the compiler had nothing to cut, as in a program of one device.
    """
    sides = ("get_parameter_shardings", "get_output_shardings")
    shardings = [sharding for side in sides for sharding in _find(executable, side)() or ()]
    return [prod(sharding.tile_assignment_dimensions) for sharding in shardings]


def own_functions() -> frozenset[str]:
    """The names of JAX's own operations and functions, which scripts call with arrays of any shape."""
    operations = getattr(sys.modules.get("jax._src.interpreters.mlir"), "_lowerings", ())
    names = {str(operation.name) for operation in operations}
    for name, module in sys.modules.copy().items():
        if name.startswith("jax.") and module is not None:
            found = list(vars(module).values())
            names.update(str(each.__name__) for each in found if type(each).__name__ in _COMPILED_TYPES)
    return frozenset(names)


class Compiles(NamedTuple):
    """What is being compiled: whether JAX itself defines the function, None where nobody knows.

    `initializes`: it returns far more than it takes, as functions do that make the first values of layers.
    """

    of_jax: bool | None = None
    initializes: bool = False


def being_compiled(frame: FrameType | None) -> Compiles:
    """What the compilation is of that this frame belongs to.

    It is not seen of compilations ahead of time, and on older versions.
    """
    for _ in range(_COMPILES_WITHIN):
        if frame is None or frame.f_trace is not None:  # else a debugger's values would go
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
    """The name of a compiled function that was launched, the same that its program has."""
    name = getattr(function, "__name__", None)
    if name is None and not hasattr(function, "__wrapped__"):
        # Compiled ahead of time: no function of the script is behind it, and only this error has the name.
        try:
            _ = function.__signature__
        except ValueError as error:
            found = _AHEAD_OF_TIME.search(str(error))
            name = found and found[1]
    return str(name or type(function).__name__)


def process_index(client: Any) -> int:
    """The index of this process in its run."""
    return int(_find(client, "process_index")())


def process_count(client: Any) -> int:
    """How many processes the run has."""
    return len({device.process_index for device in _find(client, "devices")()})


def hardware_ordinal(device: Any) -> int | None:
    """The number by which the platform's runtime knows a device in this process: CUDA's ordinal, for one."""
    ordinal = getattr(device, "local_hardware_id", None)
    return ordinal if isinstance(ordinal, int) and ordinal >= 0 else None


def memory_stats(device: Any) -> dict[str, int] | None:
    """What the allocator says of a local device; None where it has no allocator that counts."""
    try:
        stats = device.memory_stats()
    except Exception:  # some backends raise where others return None
        return None
    return stats or None


class Coordination:
    """JAX's coordination service, seen from this process.

    To be touched only once the backends are up: before that the client exists but is not connected, and
    JAX 0.10 aborts the process, and its peers with it, when an unconnected client is used.
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
        """Put a small value; blocks, for minutes if the coordinator does not answer."""
        self._client.key_value_set(key, value, allow_overwrite=overwrite)

    def get(self, key: str, seconds: float) -> str:
        """A value, waited for so long; raises if it does not come."""
        return str(self._client.blocking_key_value_get(key, int(seconds * 1000)))

    def meet(self, name: str, seconds: float) -> None:
        """Wait until all processes are at this place; raises if they do not come."""
        self._client.wait_at_barrier(name, int(seconds * 1000))

    def entries(self, prefix: str) -> dict[str, str]:
        """All values under a prefix; blocks likewise."""
        return dict(self._client.key_value_dir_get(prefix))


class LaunchHook:
    """The slot whose function JAX calls after each launch on its fast path; `debug_nans` uses it, too."""

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
        """What is in the slot."""
        return self._get()

    def set(self, hook: Any) -> None:
        """Put it into the slot."""
        self._set(hook)


class ThreadHooks:
    """Keeps a launch hook in threads that JAX itself leaves without one.

    Many of JAX's own functions (`logsumexp`, `var`, ...) switch `debug_nans` off around themselves. That sets
    the thread's own slot to None, which then hides the common slot for good: after its first loss a training
    program would launch unseen. So where JAX leaves None in a thread's slot, the hook is put; where it leaves
    a check of its own, that stays.
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
        """Follow every thread, and take the slot of this one if JAX has left it empty already."""
        for state, original in zip(self._states, self._originals, strict=True):
            state._update_thread_local_hook = self._followed_by_us(original)
        self._fill()

    def uninstall(self) -> None:
        """Leave JAX's functions as they were, and the slot of this thread."""
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
    """Tells of each launch that JAX makes outside its fast path, where the launch hook is not called.

    These are first calls, and all calls of functions that take a `jax.Ref` or call back into Python. JAX
    makes them with `ExecuteReplicated.__call__`. A descriptor takes the place of that method: looking the
    method up tells of the launch, and returns JAX's own. No frame of ours is in the script's tracebacks.
    """

    def __init__(self, on_launch: Callable[[str], None]) -> None:
        self._owner = _find(_module("jax._src.interpreters.pxla"), "ExecuteReplicated")
        self._original = _find(self._owner, "__call__")
        self._put = _Told(self._original, on_launch)

    def install(self) -> None:
        """Follow them from now on."""
        self._owner.__call__ = self._put

    def uninstall(self) -> None:
        """Put JAX's method back, unless somebody else has replaced it since."""
        if self._owner.__dict__.get("__call__") is self._put:
            self._owner.__call__ = self._original


class _Told:
    """A method that tells of each look-up with the `name` of its object, as "jit(step)"."""

    def __init__(self, original: Any, on_launch: Callable[[str], None]) -> None:
        self._original = original
        self._on_launch = on_launch

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self._original
        with suppress(Exception):  # the launch goes on
            self._on_launch(instance.name)
        return self._original.__get__(instance, owner)


class CompileListeners:
    """JAX's monitoring, of which we follow compilations."""

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
        """Take out our own listeners, and only those; older versions call it by a private name."""
        for kind, (_, listener) in self._listeners.items():
            names = (f"unregister_{kind}_listener", f"_unregister_{kind}_listener_by_callback")
            _find(self._monitoring, *names)(listener)


class Profiler:
    """JAX's profiler, and who else uses it in this process."""

    # What jaxlib says when somebody was faster.
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
        """Until 0.7.2 each session prints two lines to the script's standard error."""
        return self._version < (0, 8)

    @property
    def frees_the_gil(self) -> bool:
        """Whether stopping leaves the GIL to others: seen on 0.10, not on 0.8."""
        return self._version >= (0, 10)

    def in_use(self) -> str | None:
        """Who uses it now, if anybody does; to be asked with the lock held."""
        if self.state.profile_session is not None:
            return "the script's own profile is running"
        if self._lib.TraceMe.is_enabled():
            return "another profiler is running"
        pgle = getattr(sys.modules.get("jax._src.config"), "enable_pgle", None)
        if pgle is not None and pgle.value:
            return "profile-guided compilation uses the profiler (jax_enable_pgle)"
        return None

    def has_server(self) -> bool:
        """Whether somebody may ask for a profile from outside, which takes no lock."""
        return getattr(self._jax, "_profiler_server", None) is not None

    def start(self) -> Any:
        """A session: what runs from now on is traced."""
        options = (getattr(self._lib, "ProfileOptions", None) or _find(self._jax, "ProfileOptions"))()
        options.python_tracer_level = 0
        options.host_tracer_level = 1 if self._version >= (0, 10) else 2  # where the operations are
        options.enable_hlo_proto = False
        options.raise_error_on_start_failure = True
        return self._lib.ProfilerSession(options)

    def stop(self, session: Any) -> Any:
        """End the session; returns the trace."""
        if self.frees_the_gil and hasattr(session, "stop_and_get_profile_data"):
            return session.stop_and_get_profile_data()
        return _module("jax.profiler").ProfileData.from_serialized_xspace(session.stop())


def features() -> dict[str, str]:
    """What of this JAX works for us: name to "on", or to why not. For `doctor`; JAX must be imported."""
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
