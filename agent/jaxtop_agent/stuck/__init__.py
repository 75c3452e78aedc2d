"""Ends a process of a run that is stuck, with evidence, where the script or the environment asks for it.

What is where, in the order in which to read it:

- usage.py: CPU time and bytes of the process, its threads and its children, and which of these moved
- standstill.py: for how long nothing has moved
- agreement.py: whether all processes of the run say so: they report to the agent of process 0
- thread.py: the thread that looks, reports or decides, and acts
- evidence.py: the last act: the black box, one line on standard error, the exit
"""
