"""The step that a run repeats, and its duration, from launches or from the script's calls of `agent.step()`.

The package is pure: numbers in, numbers out. `collectors/steps.py` supplies the numbers, and puts the result
on the board.
"""
