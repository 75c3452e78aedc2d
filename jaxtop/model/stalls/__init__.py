"""Stalls: which process delays the others, and where the threads of all processes are."""
