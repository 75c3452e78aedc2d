"""The hooks that JAX and Python's import system call on the user's threads."""
