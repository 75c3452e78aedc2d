"""The terminal interface. It depends on the model, and not on sockets, files or exporters.

What is where; a folder imports only from those below it:

- app.py: the whole app: its parts, and what it paints around the open screen
- view_state.py: the run that is followed, and the time of it that is shown; all parts read it
- time_keys.py, request_keys.py, runs.py, applied_preferences.py, navigation.py: the parts: keys that move in
  time; keys that ask processes; the switch to another run; theme, keys and columns of the user; which screen
  is open
- header.py, status_line.py: the first and the second line
- playback.py, ingest.py: which time is shown; the folding of frames by slices
- history.py, requests.py: what the app asks of a session, of its recorder and of processes
- stack_tally.py: samples of the main threads, and how often each line was seen
- places.py: hosts, devices, arrays and programs in the palette
- notifier.py: the bell and desktop notifications
- changed_cells.py: what the terminal shows, so that only what changed is sent
- colours16.py: the colours of the theme `terminal`, and for terminals with 16 colours
- colours256.py: colours for terminals with 256 colours
- screens/: one file per screen: it turns a moment into rows or contents, and holds the selection;
  `SCREENS` lists them with keys and titles
- dialogs/: help and palette, going to a time, the list of live runs
- widgets/: Textual widgets: they know their size, the keys and the mouse
- filters/, columns/: the filter language and its fields; the columns of hosts and devices
- draw/: text from values, without widgets: tested as text
- core/: what all of these use: the moment (the cluster at one time), texts of figures, colours, metrics
  of the mesh
"""
