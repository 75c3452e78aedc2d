"""Stalls: which process holds up the others, and where the threads of all processes stand."""
