"""The base of all parts of the app: the moment that is shown, texts, colours, metrics of devices.

What is where:

- moment.py: the moment that is shown, and the selection
- metrics.py, slices.py: the figures and slices that colour the mesh
- text.py: figures, states and names as text
- ongoing.py: which events tell of something that still lasts
- palette.py: the colours by role
- sticky_value.py: keeps what is shown for a while
- preferences.py: how the user wants the app to look
"""
