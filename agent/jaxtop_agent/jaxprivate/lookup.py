"""Look-ups of JAX's modules and attributes; nothing here imports JAX."""

from __future__ import annotations

import sys
from typing import Any


class Missing(Exception):
    """This JAX lacks the requested name."""


def imported(name: str) -> Any:
    """Return a module that the script has imported."""
    module = sys.modules.get(name)
    if module is None:
        raise Missing(f"{name} is not imported")
    return module


def find(owner: Any, *names: str) -> Any:
    """Return the attribute with the first of these names that exists."""
    for name in names:
        found = getattr(owner, name, None)
        if found is not None:
            return found
    raise _missing(owner, names)


def named(owner: Any, *names: str) -> str:
    """Return the first of these names that the owner has, whatever its value is."""
    for name in names:
        if hasattr(owner, name):
            return name
    raise _missing(owner, names)


def _missing(owner: Any, names: tuple[str, ...]) -> Missing:
    return Missing(f"no {' or '.join(names)} in {getattr(owner, '__name__', owner)}")


def versions() -> tuple[str | None, str | None]:
    jax, jaxlib = sys.modules.get("jax"), sys.modules.get("jaxlib")
    return getattr(jax, "__version__", None), getattr(jaxlib, "__version__", None)


def jax_folder() -> str:
    return str(imported("jax").__file__).rpartition("__init__")[0]
