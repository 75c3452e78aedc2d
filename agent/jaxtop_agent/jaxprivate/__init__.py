"""All access to private names of JAX.

JAX is read through `sys.modules`: nothing here imports it, initialises a backend or runs an operation. The
exception is `lowered_programs.py`, which only jaxtop's own processes use. A name that this version lacks
raises `Missing`, which turns off only the features that need it.

What is where, in the order in which to read it:

- lookup.py: look-ups of JAX's modules and attributes; `Missing`
- backends.py: clients of the backends, their devices and memory, the coordination service
- starting.py: the moment before the first backend
- arrays.py: live arrays, the types that hold arrays, and shardings
- launches.py: what JAX calls at each launch
- programs.py: loaded programs, and what the compiler reports about them
- compiles.py: what JAX reports about compilations
- errors.py: the exceptions of JAX's runtime
- profiler.py: JAX's profiler
- lowered_programs.py: programs as JAX gives them to the compiler
- declarations.py: where JAX defines what all these read
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop_agent.jaxprivate.arrays import (
    BOXES,
    HOLDERS,
    array_type,
    hlo_sharding,
    live_arrays,
    tiles,
)
from jaxtop_agent.jaxprivate.backends import (
    Coordination,
    clients,
    default_client,
    default_memory,
    expected,
    hardware_ordinal,
    has_backends,
    local_devices,
    memory_stats,
    process_count,
    process_index,
)
from jaxtop_agent.jaxprivate.compiles import (
    FunctionToCompile,
    MonitoringListeners,
    being_compiled,
    has_persistent_cache,
    setting_names,
)
from jaxtop_agent.jaxprivate.errors import LAUNCHES_SLOWLY, TRIES_PLATFORMS, RuntimeErrors
from jaxtop_agent.jaxprivate.launches import LaunchHook, SlowLaunches, ThreadHooks, code_of, name_of
from jaxtop_agent.jaxprivate.lookup import Missing, find, imported, versions
from jaxtop_agent.jaxprivate.lowered_programs import compiled, element_type, lowered, mlir, portable, shardy
from jaxtop_agent.jaxprivate.profiler import Profiler
from jaxtop_agent.jaxprivate.programs import (
    argument_cuts,
    buffer_assignment,
    code_bytes,
    compiled_memory,
    cuts,
    device_count,
    fingerprint,
    instructions,
    is_jaxs,
    live_executables,
    module,
    module_header,
    module_message,
    module_name,
    module_number,
    module_shapes,
    module_text,
    own_functions,
    parts,
    platform,
    program_traceback,
    started,
)
from jaxtop_agent.jaxprivate.starting import when_backends_start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def features() -> dict[str, str]:
    """Return for each feature "on", or why it does not work with this JAX; JAX must be imported."""
    checks: Iterable[tuple[str, Callable[[], object]]] = (
        ("backends", default_client),
        ("start of backends", lambda: find(imported("jax._src.xla_bridge"), "_plugin_lock")),
        ("coordination", Coordination),
        ("launches", LaunchHook),
        ("compiles", lambda: MonitoringListeners(_ignore, _ignore, _ignore)),
        ("exceptions", lambda: RuntimeErrors(_ignore)),
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
