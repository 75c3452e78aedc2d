"""The columns of the tables of hosts and devices."""
