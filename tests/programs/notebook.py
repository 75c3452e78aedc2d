"""Runs cells as the kernel of a notebook does: in a main module of their own, below frames of the kernel."""

from __future__ import annotations

import sys
from types import ModuleType

KERNEL = """
import time

class Shell:
    pass

def launch(cells, namespace):
    app = Shell()
    app.namespace = namespace
    namespace["exit"] = app
    for cell in cells:
        exec(compile(cell, "<ipython-input>", "exec"), namespace)
    while True:
        time.sleep(1)
"""
CELLS = (
    "import jax.numpy as jnp",
    "from jaxtop import agent; agent.start(name='notebook')",
    "x = jnp.ones((10, 64)); params = {'w': jnp.ones((11, 64))}",
    "_oh = Out = {4: jnp.ones((12, 64))}; _ = _4 = Out[4]",
)

script, notebook = sys.modules["__main__"], ModuleType("__main__")
kernel = ModuleType("ipykernel.kernelapp")
exec(KERNEL, vars(kernel))
sys.modules["__main__"] = notebook
kernel.launch(CELLS, vars(notebook))
