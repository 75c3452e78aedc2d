"""The common parts of every package: times, names, keys, private files, processes, meshes as text, features.

What is where, in the order in which to read it:

- feature.py: what a feature declares, and the installed features
- times.py: times as people type them, and as JSON has them
- clock.py: a wall clock that never goes back
- units.py: quantities as text; an unknown one is `n/a`
- names.py: names of programs and files; text as one printable line
- meshes.py: meshes as people type and read them
- hostnames.py: ranges of host names, host files, variables of job schedulers
- private.py: files and folders of the user alone
- keys.py: the user's CURVE key pair
- processes.py: the identity of a process
- room.py: checks that resources are left for ZeroMQ
- forks.py: a lock that no forked child inherits
- debuglog.py: the debug log of jaxtop itself
- tested_versions.py: the versions of JAX that jaxtop was tested with
- protobuf.py: reads and writes the wire format of protocol buffers
"""
