"""The programs of the bench, each with the meshes that it runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from jaxtop.base.meshes import Axes

DEVICES = 8


class Case(NamedTuple):
    """A program, what it is in words, and its meshes."""

    name: str
    text: str
    meshes: tuple[Axes, ...]


def _meshes(names: str, *sizes: tuple[int, ...]) -> tuple[Axes, ...]:
    return tuple(tuple(zip(names.split(), each, strict=True)) for each in sizes)


CASES = (
    Case("mlp_data", "MLP, data parallel", _meshes("data", (8,), (6,), (4,), (3,), (2,), (1,))),
    Case(
        "mlp_fsdp",
        "MLP, fully sharded",
        _meshes("data fsdp", (8, 1), (4, 2), (2, 4), (1, 8), (2, 2), (1, 4)),
    ),
    Case(
        "transformer_tensor",
        "transformer with a scan, tensor parallel",
        _meshes("data model", (8, 1), (4, 2), (2, 4), (1, 8), (2, 2), (1, 4)),
    ),
    Case(
        "experts",
        "mixture of experts",
        _meshes("data expert", (8, 1), (4, 2), (2, 4), (1, 8), (2, 2), (4, 1)),
    ),
    Case(
        "convolution",
        "convolution net",
        _meshes("data model", (8, 1), (4, 2), (2, 4), (4, 1), (2, 2), (3, 2)),
    ),
    Case(
        "flax_fsdp",
        "Flax model with Optax, fully sharded",
        _meshes("data fsdp", (8, 1), (4, 2), (2, 4), (1, 8), (2, 3), (1, 4)),
    ),
    Case(
        "pipeline",
        "pipeline with shard_map",
        _meshes("data stage", (8, 1), (4, 2), (2, 4), (1, 8), (2, 2), (1, 4)),
    ),
    Case(
        "transformer_hybrid",
        "transformer, data × fsdp × tensor",
        _meshes("data fsdp tensor", (8, 1, 1), (4, 1, 2), (2, 2, 2), (1, 8, 1), (1, 2, 4), (1, 2, 2)),
    ),
)
CASES_BY_NAME = {each.name: each for each in CASES}
