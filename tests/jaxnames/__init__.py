"""Checks every private name of JAX that the agent reads against the sources of several versions of JAX.

`python -m tests.jaxnames` downloads the wheels of each minor version, and reads them without importing them:
it needs none of the Pythons that those versions need. `make soak` runs it.

- names.py: a path to a name of JAX, and a `Use`, a look-up of one
- annotations.py: what annotations and comments in the code say
- reading.py: the look-ups in one file of the agent
- uses.py: those of all, and the declared types
- wheels.py: the content of the wheels of a version
- syntax.py: definitions in its sources
- sources.py: where it defines a name
- report.py: which names are missing in which versions, and what the agent does without them
- index.py: the versions that pip can have, and their wheels
"""
