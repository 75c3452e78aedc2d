"""What jaxtop costs, measured with `python -m tests.bench`. Nothing is asserted: these are no tests."""
