"""Sessions as frames: recorded, kept in memory, or played by the app for pictures.

- demo_runs.py: real runs of the demo, recorded as the frames that a viewer received: for pictures
- frame_player.py: the app on frames that were recorded, as if they came now, for pictures of it
- recordings.py: recordings for tests: write them, read them, and compare them with a direct fold
- reels.py: a session on a reel that is kept in memory: its frames are folded anew for each jump back
- tour.py: the animated tour of the README: a real run with several faults in turn, as the app showed it
"""
