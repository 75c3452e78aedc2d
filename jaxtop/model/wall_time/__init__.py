"""Where the wall time of a process and of a step goes: parts, gaps, and who is late."""
