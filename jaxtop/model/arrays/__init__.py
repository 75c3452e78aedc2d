"""Arrays: groups of all processes, the tree of their names, and what fills each device.

What is where, in the order in which to read it:

- groups.py: the arrays of the cluster, each once, with their slices
- changes.py: since when groups of a census are there; shared meshes
- meshes.py: the meshes that arrays are placed on
- tree.py: the arrays as a tree, by the paths in their names
- memory.py: what uses the memory of each device
- growth.py: arrays that keep growing
- at_peak.py: what was alive at the last peak of an allocator
"""
