"""The panes beside and below tables and the mesh.

What is where:

- device.py, host.py, array.py, collective.py, finding.py, peak.py: the pane of each of these
- facts.py, hardware.py, slices.py, timeline.py: what several panes have: lines of facts, figures of the
  hardware, the slices of an array, the launches of a window over time
- memory_columns.py: the memory of the devices as columns
- flame.py: the lines of all main threads as one tree
- curves.py: curves of recent values side by side; mean_bars.py: means by axis below the mesh
"""
