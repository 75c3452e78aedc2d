"""The hooks that JAX and Python's import system call on the user's threads.

What is where, in the order in which to read it:

- jax.py: all hooks of JAX: installed once, kept in place, removed at the end
- launches.py: launches and their times
- compiles.py: running and finished compilations
- checkpoints.py: what Orbax reports of checkpoints
- exceptions.py: exceptions of JAX's runtime
- trackers.py: numbers that the script logs with MLflow and Trackio
- garbage.py: runs of Python's garbage collector
- imports.py: runs code when a module has been imported
"""
