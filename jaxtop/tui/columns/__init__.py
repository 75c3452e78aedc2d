"""Columns of the tables of hosts and devices."""
