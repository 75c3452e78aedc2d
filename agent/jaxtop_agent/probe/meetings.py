"""Collectives among all devices: every process launches the same ones, in the same order."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from jaxtop.wire.probing import COLLECTIVES, CollectiveMeasurement, Meeting, ProbePlan, Stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop_agent.probe.store import Reporter, Store

# How many launches of an all-reduce wait for each device first. These launches are used to compare groups.
ROUNDS_OF_FIRSTS = 5
LEAST_LAUNCHES, MOST_LAUNCHES = 7, 40
ITEM = 4  # bytes of a float32


def measure(plan: ProbePlan, seconds: float, store: Store, reporter: Reporter) -> list[CollectiveMeasurement]:
    """Measure as many collectives as fit the time; only the clock of process 0 decides."""
    end = time.monotonic() + seconds
    found = []
    for number, meeting in enumerate(plan.meetings):
        reporter.send(Stage(COLLECTIVES, number, len(plan.meetings)))
        if not store.decided_by_first(f"go/{number}", time.monotonic() < end, bool):
            break
        collective = CompiledCollective(meeting)
        collective.launch(0)
        once = collective.launch(0)[0]
        budget = (end - time.monotonic()) / (len(plan.meetings) - number)
        launches = store.decided_by_first(f"launches/{number}", _launches(meeting, plan, once, budget), int)
        times = [collective.launch(i) for i in range(launches)]
        found.append(
            CollectiveMeasurement(
                number, tuple(whole for whole, _ in times), tuple(first for _, first in times)
            )
        )
    return found


def _launches(meeting: Meeting, plan: ProbePlan, once: float, seconds: float) -> int:
    import jax

    least = LEAST_LAUNCHES
    if meeting.kind == "all-reduce" and len(meeting.groups) > 1:
        least = ROUNDS_OF_FIRSTS * max(1, jax.device_count() // len(plan.turns))
    return max(least, min(MOST_LAUNCHES, int(seconds / max(once, 1e-6))))


class CompiledCollective:
    """A compiled collective over groups of devices, with its operand."""

    def __init__(self, meeting: Meeting) -> None:
        import jax
        import numpy as np
        from jax.sharding import Mesh, NamedSharding, PartitionSpec

        by_id = {device.id: device for device in jax.devices()}
        grid = np.array([[by_id[number] for number in group] for group in meeting.groups])
        mesh = Mesh(grid, ("groups", "members"))
        spec = PartitionSpec(("groups", "members"))
        members = len(meeting.groups[0])
        length = meeting.bytes // ITEM // (members if meeting.kind == "all-gather" else 1)
        self._operand = jax.make_array_from_callback(
            (grid.size, length), NamedSharding(mesh, spec), lambda _: np.ones((1, length), np.float32)
        )
        body = _bodies(members)[meeting.kind]
        self._step = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))

    def launch(self, number: int) -> tuple[float, float]:
        """Return the seconds until all devices of this process are done, and until the first one is.

        Each launch waits for a different device first.
        """
        start = time.perf_counter()
        shards: Sequence[Any] = self._step(self._operand).addressable_shards
        in_order = sorted(shards, key=lambda shard: shard.device.id)
        number %= len(in_order)
        in_order[number].data.block_until_ready()
        first = time.perf_counter() - start
        for shard in in_order:
            shard.data.block_until_ready()
        return time.perf_counter() - start, first


def _bodies(members: int) -> dict[str, Any]:
    from jax import lax

    ring = [(i, (i + 1) % members) for i in range(members)]
    return {
        "all-reduce": lambda x: lax.psum(x, "members"),
        "all-gather": lambda x: lax.all_gather(x, "members", axis=1, tiled=True),
        "reduce-scatter": lambda x: lax.psum_scatter(x, "members", scatter_dimension=1, tiled=True),
        "collective-permute": lambda x: lax.ppermute(x, "members", ring),
    }
