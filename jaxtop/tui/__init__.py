"""The terminal interface. It depends on the model, and not on sockets, files or exporters.

What is where; a folder imports only from those below it:

- app.py: the whole app, and what it paints around the open screen; its class derives from the first of
  the next row, that from the second, and so on
- navigation.py, looks.py, runs.py, request_keys.py, time_keys.py: which screen is open; theme, keys and
  columns of the user; the run that is followed, and the switch to another; keys that ask processes; keys
  that move in time
- header.py, facts.py: the first and the second line
- playback.py, ingest.py: which time is shown; the folding of frames by slices
- screens/: one file per screen: it turns a moment into rows or a scene, and holds the selection;
  `SCREENS` lists them with keys and titles
- dialogs/: help and palette, going to a time, the list of live runs
- widgets/: Textual widgets: they know their size, the keys and the mouse
- filters/, columns/: the filter language and its fields; the columns of hosts and devices
- draw/: text from values, without widgets: tested as text
- core/: what all of these use: the moment (the cluster at one time), texts of figures, colours, metrics
  of the mesh
"""
