"""Faults in what the devices compute."""

from __future__ import annotations

from typing import Any

from jaxtop_agent.demo.faults.fault import Fault


class ChangingShapes(Fault):
    name = "changing_shapes"
    text = "the batches get another shape every four steps, and the step is compiled again"
    rules = ("recompilation",)
    subject = {"program": "train_step"}
    everywhere = True
    costs_time = True
    STEPS = 4  # of each shape

    def shorter(self, i: int) -> int:
        return 1 + i // self.STEPS % 30


class FreshLambda(Fault):
    name = "fresh_lambda"
    text = "each step calls jax.jit on a new function, and compiles it again"
    rules = ("recompilation",)
    subject = {"program": "_lambda", "source": "programs.py"}
    everywhere = True
    costs_time = True

    def begin(self, state: Any) -> Any:
        import jax
        import numpy as np

        self.x = jax.device_put(np.ones((32, 32), np.float32), jax.local_devices()[0])
        return state

    def before_launch(self, i: int) -> None:  # noqa: ARG002
        import jax
        import jax.numpy as jnp

        jax.jit(lambda x: jnp.tanh(x @ x).sum())(self.x)


class EagerShapes(Fault):
    name = "eager_shapes"
    text = "each step adds arrays of a new shape outside of jax.jit, which JAX compiles again"
    rules = ("recompilation",)
    subject = {"program": "add", "source": "programs.py"}
    everywhere = True
    costs_time = True

    def before_launch(self, i: int) -> None:
        import jax.numpy as jnp
        import numpy as np

        jnp.add(np.ones(i + 1, np.float32), 1)


class OtherShapes(Fault):
    name = "other_shapes"
    text = "the batches of the last host have another shape, so that it launches another variant of its step"
    rules = ("program_mismatch",)
    subject = {"program": "train_step"}
    is_of_one_process = False

    def shorter(self, i: int) -> int:  # noqa: ARG002
        return 2 if self.is_here else 0


class MismatchedProgram(Fault):
    name = "mismatched_program"
    text = "the last host compiles its step with another learning rate"
    rules = ("program_mismatch",)
    is_of_one_process = False
    variant = "other_constant"


class NanLoss(Fault):
    name = "nan_loss"
    text = "a weight becomes NaN, and so does the loss"
    rules = ("bad_loss",)
    everywhere = True
    FACTOR = float("nan")

    def begin(self, state: Any) -> Any:
        import jax
        import jax.numpy as jnp

        def spoil(leaf: Any) -> Any:
            return leaf * self.FACTOR if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

        layout = jax.tree.map(lambda leaf: leaf.sharding, state)
        return jax.jit(lambda state: jax.tree.map(spoil, state), out_shardings=layout)(state)


class LossSpike(NanLoss):
    name = "loss_spike"
    text = "all weights are multiplied by 30, and the loss jumps"
    FACTOR = 30.0
    after = 80.0  # what a loss usually is, is known after a minute


class SmallCollectives(Fault):
    name = "small_collectives"
    text = "each step adds 100 sums of a few bytes over all devices, from one line"
    rules = ("small_collectives",)
    everywhere = True
    costs_time = True

    def begin(self, state: Any) -> Any:
        import jax

        axes = self.mesh.axis_names

        def many_sums(x: Any) -> Any:
            for _ in range(100):
                x = jax.lax.psum(x, axes) / self.mesh.size
            return x

        self.x, self.many_sums = _on_each_device(self.mesh, many_sums, (1,))
        return state

    def before_launch(self, i: int) -> None:  # noqa: ARG002
        self.x = self.many_sums(self.x)


class UnevenWork(Fault):
    name = "uneven_work"
    text = "the last device computes far more than the others in each step"
    rules = ("uneven_work",)
    subject = {"program": "route_tokens"}
    costs_time = True

    def begin(self, state: Any) -> Any:
        import jax
        import jax.numpy as jnp

        axes = self.mesh.axis_names

        def route_tokens(x: Any) -> Any:
            is_last = jax.lax.axis_index(axes) == self.mesh.size - 1
            rounds = jnp.where(is_last, 8, 0)
            y = jax.lax.fori_loop(0, rounds, lambda _, y: jnp.tanh(y @ y), x[0])
            return x + jax.lax.psum(jnp.mean(y), axes)

        self.x, self.route_tokens = _on_each_device(self.mesh, route_tokens, (1, 768, 768))
        return state

    def before_launch(self, i: int) -> None:  # noqa: ARG002
        self.route_tokens(self.x)


def _on_each_device(mesh: Any, function: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Return an array with a shard of this shape on every device, and the jitted function of a shard."""
    import jax
    import numpy as np
    from jax.sharding import NamedSharding
    from jax.sharding import PartitionSpec as P

    spec = P(mesh.axis_names)
    ones = np.ones((shape[0] * mesh.size, *shape[1:]), np.float32)
    x = jax.make_array_from_callback(ones.shape, NamedSharding(mesh, spec), lambda index: ones[index])
    mapped = jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    return x, jax.jit(mapped)


FAULTS = (
    ChangingShapes,
    FreshLambda,
    EagerShapes,
    OtherShapes,
    MismatchedProgram,
    NanLoss,
    LossSpike,
    SmallCollectives,
    UnevenWork,
)
