"""Bytes in, bytes out: encrypted ZeroMQ sockets that know nothing of what they carry.

Agents open a `Server`, viewers a `Subscriber` and short-lived `Question`s; a `Probe` tells why an address
does not answer. Every socket is CURVE; a socket without a key, or without its gate, is never made.
"""

from jaxtop.transport.client import Question, Subscriber
from jaxtop.transport.probe import ReachabilityCheck
from jaxtop.transport.server import FIRST_PORT, Asked, Server

__all__ = ["FIRST_PORT", "Asked", "Question", "ReachabilityCheck", "Server", "Subscriber"]
