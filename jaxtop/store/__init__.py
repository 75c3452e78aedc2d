"""What is stored for others to find: run files of live processes, and the last result of a probe."""
