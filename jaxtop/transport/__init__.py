"""Encrypted ZeroMQ sockets, which transport bytes without interpreting them.

Agents open a `Server`, viewers a `Subscriber` and short-lived `Question`s; a `ReachabilityCheck` finds out
why an address does not answer. Relays open a `hub.Hub`, their viewers a `Dialogue`. Every socket uses CURVE;
no socket is made without a key, or without its authenticator.
"""

from jaxtop.transport.client import Dialogue, Question, Subscriber
from jaxtop.transport.probe import ReachabilityCheck
from jaxtop.transport.server import FIRST_PORT, Asked, Server

__all__ = [
    "FIRST_PORT", "PORTS_TRIED", "Asked", "Dialogue", "Question", "ReachabilityCheck", "Server", "Subscriber"
]  # fmt: skip
# Agents take the first free ports from here on, and each knows all other agents of its run. With more than
# four agents on a host, an agent of another run may have a later port: attach to it with its port.
PORTS_TRIED = range(FIRST_PORT, FIRST_PORT + 8)
