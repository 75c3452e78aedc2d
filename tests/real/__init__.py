"""Real processes, sockets, terminals and logins, and what ends them.

- forkserver.py: starts scripts and commands in forks of a process that has imported their modules
- leftovers.py: ends the processes that a failed test left running
- load.py: hundreds of agents in one process, with real sockets, keys and messages
- sockets.py: both ends of the transport, a relay between them, and what a viewer notices
- logins.py: logins by SSH to this machine or to a network namespace of it
- terminals.py, hangups.py: commands in terminals of their own; terminals that close
- written.py: what the app writes to a terminal, and what the terminal then shows
- trackers.py: scripts that log with W&B, MLflow or Trackio
- unharmed.py: proves that a script with the agent behaves as without it
- wheels.py: wheels and source archives of the project
"""
