"""The agent, its publisher, sampler and registrar: the threads that connect all other parts."""
