"""Commands on this machine: the processes, drivers and costs of agents that they start and read."""
