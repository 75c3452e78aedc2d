"""The places in JAX of everything that is read here, for annotations alone: nothing imports this at run time.

`python -m tests.jaxnames` follows these types through the code, and looks up each name that is read of them
in the sources of each version of JAX. A path that ends in `()` stands for the variables of that function. A
tuple lists names that the class must have; with "jax.*" values are names that must be anywhere in JAX.
"""

from __future__ import annotations

from typing import Annotated, Any

Client = Annotated[Any, "jaxlib._jax.Client"]
Device = Annotated[Any, "jaxlib._jax.Device"]
Executable = Annotated[Any, "jaxlib._jax.LoadedExecutable"]
Module = Annotated[Any, "jaxlib._jax.HloModule"]
Computation = Annotated[Any, "jaxlib._jax.HloComputation"]
Instruction = Annotated[Any, "jaxlib._jax.HloInstruction"]
PrintOptions = Annotated[tuple[str, ...], "jaxlib._jax.HloPrintOptions"]
CompiledMemory = Annotated[Any, "jaxlib._jax.CompiledMemoryStats"]
HloSharding = Annotated[Any, "jaxlib._jax.HloSharding"]
GSPMDSharding = Annotated[Any, "jax._src.sharding_impls.GSPMDSharding"]
ProfileData = Annotated[Any, "jaxlib._profile_data.ProfileData"]
Session = Annotated[Any, "jaxlib._profiler.ProfilerSession"]
Dialects = Annotated[Any, "jaxlib.mlir.ir"]
Shardy = Annotated[Any, "jaxlib.mlir.dialects.sdy"]
# Of a compilation: the arguments of the lowered computation, and the functions on the stack.
Lowered = Annotated[Any, "jax._src.interpreters.pxla.MeshComputation"]
LoweredArguments = Annotated[dict[str, Any], "jax._src.interpreters.pxla.UnloadedMeshExecutable.from_hlo()"]
AllArguments = Annotated[Any, "jax._src.interpreters.pxla.AllArgsInfo"]
Launch = Annotated[dict[str, Any], "jax._src.pjit._cpp_pjit.cache_miss()"]
JitInfo = Annotated[Any, "jax._src.pjit.PjitInfo"]
JitOptions = Annotated[tuple[str, ...], "jax._src.pjit.PjitInfo"]
ExecuteReplicated = Annotated[Any, "jax._src.interpreters.pxla.ExecuteReplicated"]
Primitive = Annotated[dict[str, Any], "jax._src.dispatch.apply_primitive()"]
# Names anywhere in JAX: of functions, classes and attributes, and of events.
Names = Annotated[tuple[str, ...], "jax.*"]
SetOfNames = Annotated[frozenset[str], "jax.*"]
ClassesWithAttributes = Annotated[dict[str, tuple[str, ...]], "jax.*"]
Name = Annotated[str, "jax.*"]
Events = Annotated[set[str], "jax.*"]
