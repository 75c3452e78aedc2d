"""Programs as JAX gives them to the compiler: reading, changing and compiling their text.

Only processes of their own use this, which have imported JAX.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jaxtop_agent.jaxprivate.lookup import find, imported

if TYPE_CHECKING:
    from jaxtop_agent.jaxprivate.declarations import Client, Device, Dialects, Executable, Shardy


def mlir() -> Dialects:
    """Return MLIR's bindings: modules, operations, types and attributes."""
    return import_module("jaxlib.mlir.ir")


def shardy() -> Shardy:
    """Return the bindings of Shardy: meshes and shardings."""
    return import_module("jaxlib.mlir.dialects.sdy")


def lowered(content: str | bytes) -> Any:
    """Parse a program from text or bytecode; the module has a context of its own."""
    lowering = import_module("jax.interpreters.mlir")
    with find(lowering, "make_ir_context")():
        return mlir().Module.parse(content)


def portable(content: bytes) -> Any:
    """Parse a program in the versioned format that `jax.export` writes."""
    library = find(imported("jax._src.lib"), "_jax")
    read = find(find(library, "mlir"), "deserialize_portable_artifact")
    lowering = import_module("jax.interpreters.mlir")
    with find(lowering, "make_ir_context")():
        found = read(content)
    return lowered(found) if isinstance(found, str | bytes) else found


def element_type(dtype: str, context: Any) -> str:
    """Return the compiler's name of a data type, such as "f32"."""
    import numpy as np

    lowering = import_module("jax.interpreters.mlir")
    with context:
        return str(find(lowering, "dtype_to_ir_type")(np.dtype(dtype)))


def compiled(
    module: Any, devices: Any, *, is_shardy: bool, open_arguments: list[bool], open_results: list[bool]
) -> Executable:
    """Compile a module for these devices as JAX would, and return the loaded executable.

    `open_arguments` and `open_results` say for which of them the compiler may choose the sharding.
    """
    import numpy as np

    compiler = import_module("jax._src.compiler")
    assignment = np.array([list(devices)], dtype=object)
    first: Device = devices[0]
    client: Client = first.client
    options = find(compiler, "get_compile_options")(1, len(devices), assignment, backend=client)
    build = options.executable_build_options
    build.use_shardy_partitioner = is_shardy
    build.allow_spmd_sharding_propagation_to_parameters = open_arguments
    build.allow_spmd_sharding_propagation_to_output = open_results
    listed = find(find(imported("jax._src.lib"), "_jax"), "DeviceList")(tuple(devices))
    with module.context:
        return find(compiler, "backend_compile_and_load")(client, module, listed, options, [])
