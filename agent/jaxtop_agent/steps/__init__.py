"""The step that a run repeats, and its duration. The package is pure: numbers in, numbers out.

What is where, in the order in which to read it:

- finder.py: the step of a process, found in its launches
- pattern.py: the launches that make a step
- durations.py: the durations of steps
- changes.py: when the rhythm has changed, and pauses between steps
- work.py: the operations of a launch
- figures.py: the figures of a step
- progress.py: what the script reports with `agent.step()`
- reports.py: the values of its last calls, read when they are ready
"""
