"""Runs with one fault or property each, second by second, for rules and screens.

- collectives.py: more for the stage: windows of the profiler, and stacks
- devices.py: more for the stage: programs, and devices whose allocators count
- findings.py: runs for rules: processes that train for some seconds, each second as a test stages it
- hangs.py: runs that hang with all stacks alike, and agents that ask the libraries of their devices
- hardware.py: for the stage: a run on GPUs of which everything is known, and some of it should worry
  somebody
- memory.py: staged runs for the rules about memory: devices with allocators, arrays on a mesh of 2 × 4,
  programs
- mesh.py: runs of so many hosts and devices over meshes, told to the model; and the mesh screen alone in an
  app
- parts.py: processes whose wall time has known parts: launches in windows, a rhythm, samples of the main
  thread
- probe.py: results of a probe for devices of the stage
- stalls.py: runs that stall, pulse by pulse: with a rhythm, and before their first launches
"""
