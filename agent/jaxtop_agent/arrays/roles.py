"""The role of an array in a training run, derived from its name or the type of its container."""

from __future__ import annotations

from typing import Any

PARAMETERS, OPTIMIZER, GRADIENTS, BATCH, OTHER = "parameters", "optimizer", "gradients", "batch", "other"

# The names that JAX's frameworks and their users give to each role.
_BY_NAME = {
    PARAMETERS: ("params", "param", "parameters", "weights", "model", "net", "network", "model_params",
                 "net_params", "network_params", "trainable_variables"),
    OPTIMIZER: ("opt_state", "opt_states", "optim_state", "optimizer", "optim", "opt", "optimizer_state",
                "opt_params", "momentum", "momenta", "velocity", "mu", "nu", "adam", "trace",
                "optimizer_variables"),
    GRADIENTS: ("grads", "grad", "gradients", "gradient", "accumulated_grads"),
    BATCH: ("batch", "batches", "inputs", "labels", "images", "tokens", "targets", "image", "label",
            "x_batch", "y_batch", "xb", "yb", "minibatch"),
    OTHER: ("batch_stats", "rng", "rngs", "key", "keys", "cache", "caches", "kv_cache", "kv_caches",
            "ema", "ema_params", "carry", "non_trainable_variables", "metrics_variables", "metrics",
            "compile_metrics", "loss_tracker"),
}  # fmt: skip
# Words that are ignored next to such a name, as in `initial_params` and `params_replicated`.
_WHICH_ONE = ("init", "initial", "initialized", "new", "old", "next", "last", "prev", "previous", "current",
              "cur", "updated", "trained", "final", "best", "restored", "loaded", "replicated",
              "unreplicated", "sharded", "distributed", "local", "global", "host", "device", "stacked",
              "train")  # fmt: skip
_ROLE = {name: role for role, names in _BY_NAME.items() for name in names}
_FLAX_TYPES = {"Param": PARAMETERS, "OptState": OPTIMIZER, "OptVariable": OPTIMIZER, "OptArray": OPTIMIZER,
               "BatchStat": OTHER, "Cache": OTHER, "RngKey": OTHER, "RngCount": OTHER}  # fmt: skip


def role_of(key: Any) -> str | None:
    """Return the role that a name indicates, if any."""
    if not isinstance(key, str):
        return None
    name = key.lower().lstrip("_")
    role = _ROLE.get(name)
    if role is None:
        words = name.rstrip("_0123456789").split("_")
        role = _ROLE.get("_".join(word for word in words if word not in _WHICH_ONE))
    return role


def role_of_type(kind: type) -> str | None:
    """Return the role that a container's type or base type indicates: one of Optax, Flax NNX or Equinox."""
    for base in kind.__mro__:
        package = base.__module__.partition(".")[0]
        if package == "optax":
            return OPTIMIZER
        if package == "flax" and base.__name__ in _FLAX_TYPES:
            return _FLAX_TYPES[base.__name__]
        if package == "equinox" and base.__name__ == "Module":
            return PARAMETERS
    return None
