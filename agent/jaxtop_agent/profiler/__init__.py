"""Collective timings: short windows of JAX's own profiler, taken by all hosts at the same moment.

`schedule.py` decides when and how long. `session.py` takes the window, and never conflicts with the script's
own profiler. `traces/` reads the trace, `rows.py` chooses the rows that are sent, and `worker.py` is the
thread that runs all of it.
"""
