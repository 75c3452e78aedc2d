"""The wall time of a process and of a step by part, gaps, and late processes.

What is where, in the order in which to read it:

- launch_times.py: how long launches of each program take, from windows
- parts.py: the parts of a process's time, as far as it shows itself
- gaps.py: the gaps in which a host launches nothing, and what its main thread does meanwhile
- late_scripts.py: which processes are late by their scripts
- lateness.py: how long the others wait for processes that are late
- step_parts.py: the parts of a step, for each process and for a run
- device_waits.py: how long each device waits in a step
- past.py: samples of these parts over the last hour
- time_spent.py: what a process has spent its time on since it started
"""
