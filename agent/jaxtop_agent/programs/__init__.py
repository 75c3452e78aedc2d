"""The contents of compiled programs, read from the compiler's own text: collectives, operations, bytes.

What is where:

- inventories.py, fitting.py: what is read of each loaded program, once; as messages of bounded size
- loaded_executables.py: the match of a launch with one of several loaded programs
- executable_summary.py: names, devices and memory of a loaded program
- text.py, lines.py, shapes.py, source_lines.py: the lines of a text that matter; an instruction, a shape
  and the line of the script in them
- hlo.py, collective_instructions.py, groups.py, fused_collectives.py, resharding.py: collectives, their
  members, and why they were added
- operations.py, executed_operations.py, counting.py, summaries.py, calls.py, loops.py: operations and bytes
  of a launch, and how often each part of a program runs
- buffers/: what holds memory at the peak
- compiles/: how often and why functions are compiled
"""
