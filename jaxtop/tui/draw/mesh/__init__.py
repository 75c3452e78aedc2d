"""The mesh as text: where each device is, and what its cell shows.

What is where:

- layouts.py: what a layout is: it plans cells and labels for any room
- host_blocks.py, axes.py, axis_bands.py: the layouts: a block for each process, or rows and columns of axes
- arranger.py: which arrangement is chosen, and which page of it; switches.py: the switches above it
- cells.py: the lines of a plan, from a reading and a palette
"""
