"""What an array is to a training run, where its name or the type around it tells."""

from __future__ import annotations

from typing import Any

PARAMETERS, OPTIMIZER, GRADIENTS, BATCH, OTHER = "parameters", "optimizer", "gradients", "batch", "other"

# By the names that JAX's frameworks and their users give.
_BY_NAME = {
    PARAMETERS: ("params", "param", "parameters", "weights", "model", "net", "network"),
    OPTIMIZER: ("opt_state", "opt_states", "optimizer", "optim", "opt", "optimizer_state", "opt_params",
                "momentum", "momenta", "velocity", "mu", "nu", "adam", "trace"),
    GRADIENTS: ("grads", "grad", "gradients", "gradient", "accumulated_grads"),
    BATCH: ("batch", "batches", "inputs", "labels", "images", "tokens", "targets", "image", "label",
            "x_batch", "y_batch", "xb", "yb", "minibatch"),
    OTHER: ("batch_stats", "rng", "rngs", "key", "keys", "cache", "ema", "ema_params", "carry"),
}  # fmt: skip
_ROLE = {name: role for role, names in _BY_NAME.items() for name in names}
_FLAX_TYPES = {"Param": PARAMETERS, "OptState": OPTIMIZER, "OptVariable": OPTIMIZER, "OptArray": OPTIMIZER,
               "BatchStat": OTHER, "Cache": OTHER, "RngKey": OTHER, "RngCount": OTHER}  # fmt: skip


def role_of(key: Any) -> str | None:
    """What this name says."""
    return _ROLE.get(key.lower().lstrip("_")) if isinstance(key, str) else None


def role_of_type(kind: type) -> str | None:
    """What the type of a container says: a state of Optax, a variable of Flax NNX, a module of Equinox."""
    package = kind.__module__.partition(".")[0]
    if package == "optax":
        return OPTIMIZER
    if package == "flax":
        return _FLAX_TYPES.get(kind.__name__)
    bases = {f"{base.__module__.partition('.')[0]}.{base.__name__}" for base in kind.__mro__}
    if "equinox.Module" in bases:
        return PARAMETERS
    return None
