"""The step that a run repeats, and how long it takes, from the times of its launches or of the script's calls.

Pure: numbers in, numbers out. `collectors/steps.py` brings them in, and puts what is found on the board.
"""
