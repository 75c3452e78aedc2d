"""What the kernel reports about the machine, the container and the process, in small files."""
