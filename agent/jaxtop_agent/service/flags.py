"""The flags that decide which programs JAX makes: all processes of a run must have the same."""

from __future__ import annotations

import os
import re
import sys
from functools import lru_cache

VARIABLES = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
# Public settings of JAX that change programs or values.
SETTINGS = (
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_numpy_dtype_promotion",
    "jax_use_shardy_partitioner",
    "jax_disable_jit",
)
# Flags that name a place, or the number of devices of a process, may differ.
_OF_A_PROCESS = re.compile(r"dump|dir|path|file|log|host_platform_device_count|visible|slice|worker|port|ip")
# The number of flags in a message.
MAX_FLAGS = 100
# The length of a name or a value in a message.
MAX_VALUE_CHARS = 100


def flags() -> dict[str, str]:
    """Return the flags of this process by name, and JAX's settings once it is imported."""
    config = getattr(sys.modules.get("jax"), "config", None)
    settings = {name: value for name in SETTINGS if (value := getattr(config, name, None)) is not None}
    return {
        **_parsed(tuple(os.environ.get(name, "") for name in VARIABLES)),
        **{name: str(value)[:MAX_VALUE_CHARS] for name, value in settings.items()},
    }


@lru_cache(maxsize=4)
def _parsed(texts: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in " ".join(texts).split():
        name, _, value = word.partition("=")
        if name.startswith("--") and not _OF_A_PROCESS.search(name):
            found[name[:MAX_VALUE_CHARS]] = value[:MAX_VALUE_CHARS] or "true"
    return dict(sorted(found.items())[:MAX_FLAGS])
