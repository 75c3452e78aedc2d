"""Finds the line of the script that created something: the innermost frame outside libraries."""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

# Libraries that scripts call to create arrays and programs; lines inside them do not identify the script.
_LIBRARIES = """
jax jaxlib numpy scipy ml_dtypes jaxtyping beartype flax optax haiku equinox chex orbax distrax rlax jraph
diffrax lineax optimistix numpyro blackjax brax tensorflow_probability keras penzai kauldron grain jaxopt jmp
ray torch tensorflow tensorflow_datasets datasets wandb mlflow trackio tensorboardX tqdm fsspec requests
absl clu fire click typer IPython ipykernel traitlets tornado jupyter_client nbclient marimo
"""
LIBRARIES = frozenset(_LIBRARIES.split())
# The file names of code that belongs to the user but is in no file.
_SPOKEN = ("<string>", "<stdin>", "<ipython")
# The script is within this many calls of a compilation.
MAX_FRAMES = 200
PACKAGE_FOLDERS = ("site-packages", "dist-packages")


def created(traceback: Any) -> str | None:
    """Return the line that created something, as "train.py:57 init"; None if all frames are in libraries."""
    try:
        for frame in traceback.frames:  # the innermost first
            file = frame.file_name
            if not is_library(file):
                return f"{os.path.basename(file)}:{frame.line_num} {frame.function_name}"  # noqa: PTH119 - a hot path
    except Exception:  # an array may be deleted meanwhile, and its traceback may be None
        pass
    return None


def calling(frame: FrameType | None) -> str:
    """Return the innermost line outside libraries from this frame on, as "train.py:57"; empty if none is."""
    for _ in range(MAX_FRAMES):
        if frame is None:
            break
        file = frame.f_code.co_filename
        if not is_library(file):
            return f"{os.path.basename(file)}:{frame.f_lineno}"  # noqa: PTH119 - as above
        frame = frame.f_back
    return ""


@lru_cache(maxsize=4096)
def is_library(file: str) -> bool:
    """Whether a file belongs to Python, or to a library of which only the caller matters."""
    if file.startswith("<"):
        return not file.startswith(_SPOKEN)
    path = file.replace("\\", "/")
    for installed in PACKAGE_FOLDERS:
        _, found, inside = path.rpartition(f"/{installed}/")
        if found:
            return inside.split("/", 1)[0].removesuffix(".py") in LIBRARIES
    return path.startswith(roots())


@lru_cache(maxsize=1)
def roots() -> tuple[str, ...]:
    """Return Python's own folders, and those of libraries installed in development mode."""
    roots = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    for name in LIBRARIES:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file:
            roots.add(os.path.dirname(file))  # noqa: PTH120 - only text is cut
    return tuple(f"{root}/" for root in roots if root)
