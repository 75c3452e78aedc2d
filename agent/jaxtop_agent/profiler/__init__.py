"""Collective timings: short windows of JAX's own profiler, taken by all hosts at the same moment.

What is where, in the order in which to read it:

- worker.py: the thread that takes windows, reads and sends them
- schedule.py: when windows are taken, and how long they are
- load.py: how many events to expect of a window before it opens
- session.py: one window: starts and stops the profiler
- lock.py: the lock of the script's own profiler
- trace.py: reads a trace piece by piece
- reading.py: from a trace to messages
- rows.py: the window message, and which rows are sent
- numbers.py: the number of a launch that all processes give it
- operations.py: the message with the operations of a window
- offset.py: the offset of this clock from that of process 0
- capture.py: full profiles on request
"""
