"""A viewer in a process of its own, to be stopped or killed: SECONDS between two looks, then targets.

Prints what it knows after each look, as a line of JSON: the state and the launches of each process, how many
agents it met, and how many messages it missed.
"""

from __future__ import annotations

import json
import sys
import time

from jaxtop import discovery, keys
from jaxtop.model import Cluster, hosts, state_of
from jaxtop.sources import LiveSource

source, cluster = LiveSource(discovery.seeds(sys.argv[2:]), keys.load()), Cluster()
pulses: dict[str, int] = {}
missed = 0
while True:
    time.sleep(float(sys.argv[1]))
    for frame in source.poll(0.1):
        if frame.kind == "pulse":
            missed += max(0, frame.sequence - pulses.get(frame.agent, frame.sequence) - 1)
            pulses[frame.agent] = frame.sequence
        cluster.feed(frame)
    known = {
        str(host.process_index): {"state": state_of(host, time.time()), "launches": dict(host.launches)}
        for host in hosts(cluster)
    }
    print(json.dumps({"missed": missed, "agents": len(cluster.hosts), "hosts": known}), flush=True)
