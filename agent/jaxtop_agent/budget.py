"""What parts of the agent may take of a core, in the long run: with what cannot be paced, half a percent.

The sockets, the pulse, the black box and the waking up take 0.2 % where little is to be told. A part that was
dear waits until its share is earned; the first times after somebody came it does not wait for so long.
"""

from __future__ import annotations

CENSUS = 0.001  # of arrays: after one of 4 ms the next is 4 s away
COLLECTOR = 0.0006  # each of the others
PROGRAMS = 0.002  # each is read once
HARDWARE = 0.0007
WINDOWS = 0.0008
