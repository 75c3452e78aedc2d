"""The fault bench, `make faults`: plants faults in real runs, and measures which are found and when."""
