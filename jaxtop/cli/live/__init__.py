"""The app on a live run.

What is where:

- app.py: shows the app on a run, and lists the others to switch to
- source_thread.py: the thread that follows the run
- rewind.py, recorder.py: the recording to go back in, and those that the user starts
- broadcast.py: requests to many agents
"""
