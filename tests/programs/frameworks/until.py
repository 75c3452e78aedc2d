"""The steps of a script: a fixed number, whose result is printed, then more until a test has seen enough."""

import json
import os
import time

FOLDER = os.environ["STEER"]
FEW = 20


def steps():
    """Yield the numbers of steps until the file `stop` exists, at least FEW, and write how long they took."""
    step, times = 0, []
    while step < FEW or not os.path.exists(f"{FOLDER}/stop"):
        before = time.monotonic()
        yield step
        times.append(time.monotonic() - before)
        step += 1
        if step % 10 == 0:
            note(times[-10:], step)


def note(times, step):
    """Write the median of the latest steps as the script measures it."""
    with open(f"{FOLDER}/draft", "w") as file:
        json.dump({"step": step, "seconds": sorted(times)[len(times) // 2]}, file)
    os.replace(f"{FOLDER}/draft", f"{FOLDER}/clock.json")


def told(step, value):
    """Print the value at the last of the FEW steps, and nothing later."""
    if step == FEW - 1:
        print(f"{float(value):.6f}", flush=True)
