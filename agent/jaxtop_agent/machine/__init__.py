"""What the kernel reports about the machine, the container and the process, in small files.

Every reading is bounded in size and takes the folder that contains `proc` and `sys`. Without them, as on
macOS, figures are unknown.
"""
