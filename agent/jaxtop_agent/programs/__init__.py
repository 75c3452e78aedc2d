"""What compiled programs contain, read from the compiler's own text: collectives, operations, bytes.

`hlo.py` reads collectives, with `lines.py`, `shapes.py`, `groups.py` and `calls.py`; `operations.py` counts
operations, with `counting.py`. All are pure and never guess. `inventories.py` asks JAX once for each program.
"""
