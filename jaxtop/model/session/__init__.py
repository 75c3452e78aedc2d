"""A session as a whole: its summary over time, and the difference between two moments."""
