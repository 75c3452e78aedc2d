"""The contents of compiled programs, read from the compiler's own text: collectives, operations, bytes.

`hlo.py` reads collectives, with `lines.py`, `shapes.py`, `groups.py` and `calls.py`. `operations.py` counts
operations, with `counting.py`. All of these are pure and never guess. `inventories.py` reads each program
from JAX once.
"""
