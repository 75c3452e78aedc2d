"""Stored state for other processes: last frames of agents, run files of live processes, the last probe.

What is where, in the order in which to read it:

- runfiles.py: run files
- unused.py: processes of `jaxtop run` whose scripts have not used JAX yet, so that they have no run file
- last_frames.py: the last frames of one agent by key
- message_parts.py: the parts of messages that tell last frames apart; the rest is stored as it came
- ledgers.py: the files in which processes write what they spent their time on, so that it outlasts them
- probe_figures.py: find the measured figures of devices and collectives in the last result of `jaxtop probe`
- saved_probe.py: the last result of `jaxtop probe`, in the user's state folder
"""
