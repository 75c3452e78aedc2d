"""A run that maps over its devices the old way: COORDINATOR COUNT INDEX (COORDINATOR `-`: one process).

Says in the folder STEER how the result lies, and on which devices, and stays until it is ended.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import jax
import numpy as np

from jaxtop import agent

coordinator, count, index = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
steer = Path(os.environ["STEER"])

agent.start(name="pmap")
if coordinator != "-":
    jax.distributed.initialize(coordinator, count, index)
local = jax.local_device_count()
normalise = jax.pmap(lambda x: x / jax.lax.psum(x, "batch"), axis_name="batch")
held = normalise(np.ones((local, 1000), np.float32))
held.block_until_ready()
draft = steer / f"draft-{index}"
device_ids = sorted(device.id for device in held.sharding.device_set)
draft.write_text(json.dumps({"kind": type(held.sharding).__name__, "device_ids": device_ids}))
draft.replace(steer / f"result-{index}")
while True:
    time.sleep(1)
