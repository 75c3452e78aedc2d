"""Stored state for other processes: last frames of agents, run files of live processes, the last probe."""
