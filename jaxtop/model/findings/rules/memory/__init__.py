"""Rules about the memory of devices and hosts."""
