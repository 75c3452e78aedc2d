"""Faults that cost memory."""

from __future__ import annotations

import time
from typing import Any

from jaxtop_agent.demo.faults.fault import Fault

MIB = 1 << 20


class ArrayLeak(Fault):
    name = "array_leak"
    text = "the last host keeps an array of 256 KiB of each step in a list"
    rules = ("array_growth",)
    subject = {"array": "history"}

    def begin(self, state: Any) -> Any:
        import jax
        import numpy as np

        self.zeros = jax.device_put(np.zeros((256, 256), np.float32), jax.local_devices()[0])
        self.activate = jax.jit(lambda x: x + 1)
        return state

    def after_launch(self, i: int, loss: Any, kept: dict[str, Any]) -> None:  # noqa: ARG002
        if self.is_here:
            kept.setdefault("history", []).append(self.activate(self.zeros))

    def end(self, kept: dict[str, Any]) -> None:
        kept.pop("history", None)


class HostLeak(Fault):
    name = "host_leak"
    text = "the last host keeps 2 MiB of its memory in each step"
    rules = ("host_memory_growth",)
    MOST = 2048 * MIB

    def after_launch(self, i: int, loss: Any, kept: dict[str, Any]) -> None:  # noqa: ARG002
        samples = kept.setdefault("samples", [])
        if self.is_here and 2 * MIB * len(samples) < self.MOST:
            samples.append(b"x" * (2 * MIB))


class FastLeak(HostLeak):
    name = "fast_leak"
    text = "the last host keeps 64 MiB more of its memory each second"
    BYTES_PER_S = 64 * MIB
    MOST = 3072 * MIB

    def begin(self, state: Any) -> Any:
        self.began = time.monotonic()
        return state

    def after_launch(self, i: int, loss: Any, kept: dict[str, Any]) -> None:  # noqa: ARG002
        samples = kept.setdefault("samples", [])
        due = min(self.MOST, self.BYTES_PER_S * (time.monotonic() - self.began)) if self.is_here else 0
        while MIB * len(samples) < due:
            samples.append(b"x" * MIB)


class ReplicatedOptimizer(Fault):
    name = "replicated_optimizer"
    text = "the state of the optimizer is whole on every device instead of sharded"
    rules = ("replicated",)
    everywhere = True
    variant = "replicated_optimizer"


class ReplicatedTable(Fault):
    name = "replicated_table"
    text = "a table of 16 MiB is whole on every device, although the mesh divides it"
    rules = ("replicated",)
    subject = {"array": "table"}
    everywhere = True

    def begin(self, state: Any) -> Any:
        import jax
        import numpy as np
        from jax.sharding import NamedSharding
        from jax.sharding import PartitionSpec as P

        sharding = NamedSharding(self.mesh, P())
        table = np.zeros((64 * 1024, 64), np.float32)
        self.table = jax.make_array_from_callback(table.shape, sharding, lambda index: table[index])
        self.look_up = jax.jit(lambda table, rows: table[rows].sum())
        self.bytes_per_device = table.nbytes * (1 - 1 / self.mesh.size)
        return state

    def after_launch(self, i: int, loss: Any, kept: dict[str, Any]) -> None:  # noqa: ARG002
        import numpy as np

        self.look_up(kept.setdefault("table", self.table), np.arange(16))


class Undonated(Fault):
    name = "undonated"
    text = "the step is compiled without donating its state"
    rules = ("undonated",)
    subject = {"program": "train_step"}
    everywhere = True
    variant = "undonated"

    def begin(self, state: Any) -> Any:
        import jax

        shards = [leaf.addressable_shards[0].data for leaf in jax.tree.leaves(state)]
        self.bytes_per_device = sum(shard.nbytes for shard in shards)
        return state


class OneDevice(Fault):
    name = "one_device"
    text = "32 MiB more lie on one device of the last host"
    rules = ("whole_on_one_device", "uneven_memory")

    def begin(self, state: Any) -> Any:
        import jax
        import numpy as np

        whole = np.zeros((8 * MIB,), np.float32)
        self.cache = jax.device_put(whole, jax.local_devices()[0]) if self.is_here else None
        return state

    def after_launch(self, i: int, loss: Any, kept: dict[str, Any]) -> None:  # noqa: ARG002
        if self.cache is not None:
            kept["cache"] = self.cache


FAULTS = (ArrayLeak, HostLeak, FastLeak, ReplicatedOptimizer, ReplicatedTable, Undonated, OneDevice)
