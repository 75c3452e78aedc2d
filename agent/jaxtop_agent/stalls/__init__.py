"""Detects stalls, and reads where the threads of the process are."""
