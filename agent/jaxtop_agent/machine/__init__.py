"""The kernel's figures of the machine, the container and the process, from small files.

What is where, in the order in which to read it:

- files.py: bounded reads of small files
- basics.py: memory, CPU, network and pressure of the machine, and the size of the process
- cgroups.py: the limits of the container, and what is used of them
- disks.py: bytes read from and written to disks
- moved_bytes.py: how many bytes the process moves
- busy.py: the threads that use most CPU
- holders.py: what holds the memory of the process: pages by kind, malloc, child processes
"""
