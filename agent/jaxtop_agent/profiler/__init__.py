"""Collective timings: short windows of JAX's own profiler, taken by all hosts at the same moment.

`schedule.py` says when and how long, `session.py` takes the window and never against the script's own
profiler, `traces/` reads what it saw, `rows.py` picks what is sent, `worker.py` is the thread around it.
"""
