"""Real processes, sockets, terminals and logins, and what ends them.

- forkserver.py: starts scripts and jaxtop commands in forks of a process that has imported what they import
- hangups.py: commands on a terminal that goes away, and which of their processes are left
- leftovers.py: ends the processes that a failed test left running: they would take the time of those after
  it
- load.py: a load generator: hundreds of agents in one process, with real sockets, keys and messages, at 1
  Hz each
- logins.py: logins by SSH to this machine, or to a network namespace of it, through an sshd of their own
- sockets.py: both ends of the transport for tests: an agent's, a relay between the ends, and what a viewer
  notices
- terminals.py: commands in terminals of their own
- trackers.py: scripts that log with the real W&B, MLflow or Trackio: what they need, and an environment
  that is quiet
- unharmed.py: for tests of what a training run notices of the agent: nothing. Runs with it, without it, and
  watched
- wheels.py: wheels and source archives of the project, as they are published
- written.py: what the app writes to a terminal, and what the terminal then shows
"""
