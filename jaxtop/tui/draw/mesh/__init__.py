"""The mesh as text: where each device is, and what its cell shows.

What is where:

- layouts.py: what a layout is: it plans cells and labels for any room
- host_blocks.py, axes.py, axis_bands.py: the layouts: a block for each process, or rows and columns
- arranger.py: which arrangement is chosen, and which page of it; switches.py: the line of switches
- grid_contents.py: what the lines depend on, and which of them change with it
- cells.py: the lines of a plan; boxes.py, patches.py, quarters.py: the kinds of cells; texts.py: their texts
- means.py: the mean by row, column and host, and the sentence about the axis that differs
"""
