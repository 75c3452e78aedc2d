"""Reads a source once, for commands that print and end.

- gather.py: follows a source until the cluster is known, or measured for long enough
- complaints.py: which processes are missing, and why
"""
