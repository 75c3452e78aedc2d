"""Figures from the devices' drivers: NVIDIA's NVML, AMD's files in /sys, the metric service of TPUs.

`worker.py` runs the thread that calls the drivers, so a driver that hangs stops only that thread. `shown.py`
turns its readings into what the publisher sends. `reader.py` defines a reader.
"""
