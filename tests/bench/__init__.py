"""Measure the costs of jaxtop: `python -m tests.bench`. These are not tests: nothing is asserted."""
