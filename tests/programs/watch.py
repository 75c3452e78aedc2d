"""A viewer in a process of its own, to be stopped or killed: SECONDS between two looks, then targets.

Prints what it knows after each look, as a line of JSON: the state and the launches of each process, how many
agents it met, and how many messages it missed.
"""

from __future__ import annotations

import json
import sys
import time
from argparse import Namespace

from jaxtop.cli import targets
from jaxtop.model import Cluster, newest_hosts, state_of

named = Namespace(target=sys.argv[2:], hostfile=None, owner=None, via=None, map=[])
source, cluster = targets.open_source(named), Cluster()
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
        for host in newest_hosts(cluster)
    }
    print(json.dumps({"missed": missed, "agents": len(cluster.hosts), "hosts": known}), flush=True)
