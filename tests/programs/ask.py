"""Ask all processes of a live run for something: `ask.py TARGET COUNT WHAT` prints the errors of replies."""

import json
import sys
from argparse import Namespace

from jaxtop import wire
from jaxtop.cli import targets
from jaxtop.model import Cluster

source = targets.open_source(Namespace(target=sys.argv[1:2], hostfile=None, owner=None, via=None, map=[]))
cluster, replies = Cluster(), []
while sum(host.hello is not None for host in cluster.hosts.values()) < int(sys.argv[2]):
    for frame in source.poll(0.1):
        cluster.feed(frame)
for agent in cluster.hosts:
    source.request(agent, wire.Request(sys.argv[3]), replies.append)
while len(replies) < len(cluster.hosts):
    source.poll(0.1)
print(json.dumps([None if reply is None else reply.error for reply in replies]))
source.close()
