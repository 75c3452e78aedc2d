"""The step that a run repeats, and how long it takes, by its launches or by what the script tells.

Pure: numbers in, numbers out. `collectors/steps.py` brings them in, and puts what is found on the board.
"""
