"""What the devices' own drivers know of them: NVIDIA's NVML, AMD's files in /sys, the metric service of TPUs.

`worker.py` has the thread that asks them, which alone stands still when a driver does; `shown.py` is what the
publisher makes of its readings. `reader.py` says what a reader is.
"""
