"""What is stored for others: last frames of agents, run files of live processes, the last probe's result."""
