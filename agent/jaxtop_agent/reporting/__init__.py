"""The figures that the agent writes into a script's open run of a tracker, where the script requests it.

- figures.py: the figures and notes of a report, from what the agent of a process knows without a viewer
- destinations.py: the open run of W&B, MLflow or Trackio, written to without touching the script's own steps
- reporter.py: the thread that writes, at most once a minute
"""
