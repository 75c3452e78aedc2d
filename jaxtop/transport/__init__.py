"""Encrypted ZeroMQ sockets, which transport bytes without interpreting them.

Agents open a `Server`, viewers a `Subscriber` and short-lived `RequestConnection`s. A `ReachabilityCheck`
finds out why an address does not answer. Relays open a `hub.Hub`, their viewers a `RelayConnection`. Every
socket uses CURVE; no socket is made without a key, or without its authenticator.

What is where, in the order in which to read it:

- listener.py: the listening sockets of an agent
- single_accept.py: lets ZeroMQ accept one connection at a time
- monitors.py: the events of connections
- authenticator.py: the answers to ZeroMQ's authentication protocol
- first_messages.py: reading sockets whose peers send one message for each connection
- server.py: the agent's side: telemetry, and replies to requests
- telemetry.py: the telemetry socket and its viewers
- client.py: the viewer's side: subscription and requests
- hub.py: the listening socket of a relay
- reachability.py: why an address does not answer
"""

from jaxtop.transport.client import RelayConnection, RequestConnection, Subscriber
from jaxtop.transport.reachability import Outcome, ReachabilityCheck
from jaxtop.transport.server import FIRST_PORT, ReceivedRequest, Server

__all__ = [
    "FIRST_PORT",
    "PORTS_TRIED",
    "Outcome",
    "ReachabilityCheck",
    "ReceivedRequest",
    "RelayConnection",
    "RequestConnection",
    "Server",
    "Subscriber"
]  # fmt: skip
# Agents take the first free ports from here on, and each knows all other agents of its run. With more than
# four agents on a host, an agent of another run may have a later port: attach to it with its port.
PORTS_TRIED = range(FIRST_PORT, FIRST_PORT + 8)
