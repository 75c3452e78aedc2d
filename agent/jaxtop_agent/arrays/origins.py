"""Where in the script something was made: the innermost frame that is no library's."""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import lru_cache
from typing import Any

# Who is called by scripts to make arrays and programs; what stands inside says nothing of the script.
_LIBRARIES = """
jax jaxlib numpy scipy ml_dtypes jaxtyping beartype flax optax haiku equinox chex orbax distrax rlax jraph
diffrax lineax optimistix numpyro blackjax brax tensorflow_probability keras penzai kauldron grain jaxopt jmp
absl clu fire click typer IPython ipykernel traitlets tornado jupyter_client nbclient marimo
"""
LIBRARIES = frozenset(_LIBRARIES.split())
# Code that is in no file, and yet the user's own.
_SPOKEN = ("<string>", "<stdin>", "<ipython")
INSTALLED = ("site-packages", "dist-packages")


def created(traceback: Any) -> str | None:
    """The line that made this, as "train.py:57 init"; None where only libraries had a hand in it."""
    try:
        for frame in traceback.frames:  # the innermost first
            file = frame.file_name
            if not is_library(file):
                return f"{os.path.basename(file)}:{frame.line_num} {frame.function_name}"  # noqa: PTH119 - a hot path
    except Exception:  # an array may be deleted while it is looked at, and its traceback may be None
        pass
    return None


@lru_cache(maxsize=4096)
def is_library(file: str) -> bool:
    """Whether this file is one of Python's own or of a library of which only the caller matters."""
    if file.startswith("<"):
        return not file.startswith(_SPOKEN)
    path = file.replace("\\", "/")
    for installed in INSTALLED:
        _, found, inside = path.rpartition(f"/{installed}/")
        if found:
            return inside.split("/", 1)[0].removesuffix(".py") in LIBRARIES
    return path.startswith(roots())


@lru_cache(maxsize=1)
def roots() -> tuple[str, ...]:
    """Python's own folder, and those of libraries that are used from where they are developed."""
    roots = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    for name in LIBRARIES:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file:
            roots.add(os.path.dirname(file))  # noqa: PTH120 - only text is cut
    return tuple(f"{root}/" for root in roots if root)
