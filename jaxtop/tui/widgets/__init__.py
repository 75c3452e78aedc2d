"""Widgets: they decide the size and handle keys and mouse; the renderables in `draw` draw.

What is where, in the order in which to read it:

- detail.py: text that is repainted only when it changes
- table.py: a table whose cursor stays on its row
- column_scroll.py: which columns of a table are in view
- folding.py: a table with a tree whose branches fold
- columned_view.py: lines below a header of columns
- filter.py: a table with its filter
- key_bar.py: the tabs of the screens, and the last line of the app
- mesh_grid.py: the mesh
- array_pane.py: the pane of an array
- plot.py: the plot
- time_bar.py: the bar of time
"""
