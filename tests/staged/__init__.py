"""Runs with one fault or property each, second by second, for rules and screens.

- findings.py: processes that train for some seconds, each second as the test stages it
- devices.py: programs, and devices with allocators
- collectives.py: windows of the profiler, and stacks
- hardware.py: a run on GPUs of which everything is known, with some figures that stand out
- memory.py: devices with allocators, arrays on a mesh of 2 × 4, programs
- mesh.py: runs of any number of hosts and devices over meshes, and the mesh screen in an app
- parts.py: processes whose wall time has known parts
- stalls.py, hangs.py: runs that stall, pulse by pulse; runs that hang with equal stacks
- probe.py: results of a probe
"""
