"""The agent for a process that was started without it: what the process is, and the ways into it."""
