"""Sessions as frames: recorded, kept in memory, or played by the app for pictures.

- recordings.py: writes and reads recordings, and compares them with a direct fold
- reels.py: a session in memory, folded anew for each jump back
- demo_runs.py: records the frames of real runs of the demo
- frame_player.py: the app on recorded frames, as if they arrived now
- tour.py: the animated tour of the README
"""
