"""The collectives that compiled programs contain, read from the compiler's own text.

`hlo.py` reads the text, with `lines.py`, `shapes.py`, `groups.py` and `calls.py`: pure, and none of them ever
guesses. `inventory.py` asks JAX for it, once for each program.
"""
