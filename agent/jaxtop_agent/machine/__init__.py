"""What the kernel says of the machine, the container and the process, in small files.

Every reading is bounded and takes the folder under which `proc` and `sys` are; where there are none, as on
macOS, figures are unknown.
"""
