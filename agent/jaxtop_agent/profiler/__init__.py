"""Collective timings: short windows of JAX's own profiler, taken by all hosts at the same moment."""
