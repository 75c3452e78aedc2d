"""Detects stalls, and reads where the threads of the process are.

What is where, in the order in which to read it:

- launch_gaps.py: how often the run launches, and when it stops
- watch.py: detects stalls, reports them, and sends stacks to viewers
- stacks.py: reads the stacks of the threads
- native.py: when native stacks are read
- activity.py: samples what the main thread does
- calls.py: what a frame has called that has no frame itself
- uncaught_exception.py: the exception that ended the script
- caught_exceptions.py: events about exceptions after which the script went on
"""
