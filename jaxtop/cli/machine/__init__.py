"""What commands start and ask on this machine: processes, drivers, costs of agents."""
