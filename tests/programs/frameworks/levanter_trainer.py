"""Levanter: its Trainer, with a model of Haliax, on a mesh with its own shardings and loader."""

import os

import haliax as hax
import jax
import numpy as np
import optax
from haliax import Axis
from levanter.data.dataset import ListAsyncDataset
from levanter.distributed import DistributedConfig, RayConfig
from levanter.tracker import NoopConfig
from levanter.trainer import Trainer, TrainerConfig
from until import FEW, FOLDER, note, told

Embed, Out, Mlp = Axis("embed", 64), Axis("out", 16), Axis("mlp", 512)


def loss_fn(model, example, *, key=None):
    return hax.mean(hax.square(model(example["x"], key=key) - example["y"])).scalar()


def main():
    random = np.random.default_rng(0)
    rows = random.normal(size=(4096, 64)).astype(np.float32)
    examples = [{"x": hax.named(row, Embed), "y": hax.named(row[:16], Out)} for row in rows]
    data = ListAsyncDataset(examples, is_complete=True)
    config = TrainerConfig(
        num_train_steps=10**6, train_batch_size=64, tracker=NoopConfig(), require_accelerator=False,
        ray=RayConfig(auto_start_cluster=False), log_jaxprs=False, log_xla_hlo=False,
        distributed=DistributedConfig(initialize_jax_distributed=False),
    )  # fmt: skip
    config.initialize()
    with Trainer(config, optax.adam(1e-3), loss_fn, add_default_hooks=False) as trainer:
        state = trainer.initial_state(
            jax.random.key(0),
            model_init=lambda: hax.nn.MLP.init(Embed, Out, Mlp, 3, key=jax.random.key(1)),
        )
        times = []
        loader = trainer.data_loader(data).iter_from_step(0)
        for info in trainer.training_steps(state, _again(loader, trainer, data)):
            times.append(info.step_duration)
            told(info.step, info.loss)
            if info.step % 10 == 9:
                note(times[-10:], info.step)
            if info.step >= FEW and os.path.exists(f"{FOLDER}/stop"):
                break


def _again(loader, trainer, data):
    while True:
        yield from loader
        loader = trainer.data_loader(data).iter_from_step(0)


main()
