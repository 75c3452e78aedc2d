"""Renderables: functions from values and a size to text, without widgets, the app or the clock.

What is where:

- ink.py, reading.py, legend.py, sparkline.py, bars.py, stacked_bar.py, panel.py, switches.py: how values
  become characters and colours, and what these mean; bars, frames, and lines of switches
- table.py, table_lines.py: the columns of a table; its header and rows
- mesh/: where each device is in the mesh, and what its cell shows
- panes/: what stands beside and below tables and the mesh
- overview/: the panels of the overview
- marks.py: what happened, on the time axis of a plot
- plane.py: points and a curve on two scales
- plot.py, plot_contents.py, plot_page.py, time_bar.py: the plot, the bar of time
"""
