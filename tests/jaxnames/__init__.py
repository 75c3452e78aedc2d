"""Checks every private name of JAX that the agent reads against the sources of several versions of JAX.

`python -m tests.jaxnames` downloads the wheels of each minor version, and reads them without importing them:
it needs none of the Pythons that those versions need. `make soak` runs it.

- reading.py: the names, from the code of the agent: each look-up is a `Use`
- sources.py: where a version defines them, from the sources and strings in its wheels
- report.py: which names are missing in which versions, and what the agent does without them
- index.py: the versions that pip can have, and their wheels
"""
