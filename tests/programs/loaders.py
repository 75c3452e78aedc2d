"""A script whose steps take their batches from a real loader; it measures itself how long it waits.

Arguments: the loader, the seconds that each batch takes, after how many batches one takes longer (0: none),
how long that one takes, and how many products a step has. It ends when its folder has a file `stop`, and
writes its times to `spent.json`.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from pathlib import Path

import numpy as np

from jaxtop import agent

BUFFERED = 4


class Batches:
    """A source of batches that takes a planted time for each."""

    def __init__(self, made_s: float, every: int, stall_s: float) -> None:
        self.made_s, self.every, self.stall_s = made_s, every, stall_s

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index):
        index = int(index)
        time.sleep(self.stall_s if self.every and index % self.every == self.every - 1 else self.made_s)
        return np.full((8, 8), index % 7, np.float32)


def of_a_thread(batches):
    filled: queue.Queue[np.ndarray] = queue.Queue(maxsize=BUFFERED)

    def fill():
        for i in range(len(batches)):
            filled.put(batches[i])

    threading.Thread(target=fill, daemon=True).start()
    while True:
        yield filled.get()


def of_grain(batches):
    import grain

    read = grain.ReadOptions(num_threads=1, prefetch_buffer_size=BUFFERED)
    return iter(grain.MapDataset.source(batches).to_iter_dataset(read))


def of_grain_workers(batches):
    import grain
    from absl import flags

    flags.FLAGS.mark_as_parsed()
    sampler = grain.samplers.IndexSampler(
        len(batches), shuffle=False, num_epochs=1, shard_options=grain.sharding.NoSharding()
    )
    read = grain.ReadOptions(num_threads=1, prefetch_buffer_size=1)
    return iter(
        grain.DataLoader(
            data_source=batches, sampler=sampler, worker_count=1, worker_buffer_size=2, read_options=read
        )
    )


def of_torch_workers(batches):
    import torch.utils.data

    return iter(
        torch.utils.data.DataLoader(
            batches, batch_size=None, num_workers=1, prefetch_factor=BUFFERED, multiprocessing_context="spawn"
        )
    )


LOADERS = {
    "thread": of_a_thread,
    "grain": of_grain,
    "grain_workers": of_grain_workers,
    "torch_workers": of_torch_workers,
}


def main() -> None:
    loader, made_s, every, stall_s, products = sys.argv[1], *map(float, sys.argv[2:])
    agent.start("loaders")
    import jax
    import jax.numpy as jnp

    @jax.jit
    def step(x, batch):
        for _ in range(int(products)):
            x = jnp.tanh(x @ x * 0.01 + batch[0, 0])
        return x

    def timed(call):
        at = time.monotonic()
        value = call()
        spent.append(time.monotonic() - at)
        return value

    spent: list[float] = []
    x = jax.device_put(np.ones((256, 256), np.float32))
    batches = LOADERS[loader](Batches(made_s, int(every), stall_s))
    while not Path("stop").exists():
        batch = np.asarray(timed(lambda: next(batches)))
        x = step(x, batch).block_until_ready()
    Path("spent.json").write_text(json.dumps({"input": sum(spent)}))


if __name__ == "__main__":
    main()
