"""Program texts of any size, as a compiler might write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MB = 1_000_000
# Other instructions of a layer, with the paths, files and configuration that real ones have.
OTHERS = 120


def program(size: int, partitions: int = 256) -> str:
    """Return a module of about this many bytes: loops over layers that reduce, gather and scatter."""
    blocks: list[str] = []
    written = 0
    for layer in range(size):
        block = "".join(_layer(layer, partitions))
        blocks.append(block)
        written += len(block)
        if written >= size:
            break
    known = 'backend_config={"known_trip_count":{"n":"12"},"known_init_step":{"init":"0","step":"1"}}'
    loops = "".join(
        f"  %while.{i} = (s32[], bf16[8,1024]{{1,0}}) while(%tuple.{i}), "
        f"condition=%cond.{i}, body=%body.{i}, {known}\n"
        for i in range(len(blocks))
    )
    head = f"HloModule jit_train_step, is_scheduled=true, num_partitions={partitions}\n\n"
    return "".join((head, *blocks, f"ENTRY %main.1_spmd (p: bf16[8,1024]) -> bf16[8,1024] {{\n{loops}}}\n"))


def _layer(layer: int, partitions: int) -> Iterator[str]:
    named = f'metadata={{op_name="jit(train_step)/while/body/layer/dot_general" source_line={layer}}}'
    pairs = f"[{partitions // 8},8]<=[{partitions}]"
    columns = f"[8,{partitions // 8}]<=[{partitions // 8},8]T(1,0)"
    ids = "channel_id=1, use_global_device_ids=true"
    yield f"%fused.{layer} (p.0: bf16[8,1024]) -> bf16[8,1024] {{\n"
    for i in range(20):
        yield f"  %m.{layer}.{i} = bf16[8,1024]{{1,0}} multiply(%p.0, %p.0), {named}\n"
    yield f"}}\n\n%body.{layer} (p: (s32[], bf16[8,1024])) -> (s32[], bf16[8,1024]) {{\n"
    for i in range(OTHERS):
        yield (
            f"  %fusion.{layer}.{i} = bf16[8,1024]{{1,0}} fusion(%p), "
            f"kind=kLoop, calls=%fused.{layer}, {named}\n"
        )
    for kind, groups in (("all-reduce", pairs), ("all-gather", columns), ("reduce-scatter", columns)):
        yield (
            f"  %{kind}.{layer} = bf16[8,1024]{{1,0}} {kind}(%fusion.{layer}.0), {ids}, "
            f"replica_groups={groups}, dimensions={{0}}, {named}\n"
        )
    yield "}\n\n"
