"""Relays: they collect frames, and viewers elsewhere show them. A command or an address connects the two."""

from jaxtop.sources.relay.conversation import NoRelay
from jaxtop.sources.relay.far import FarHalf
from jaxtop.sources.relay.listening import ListeningRelay
from jaxtop.sources.relay.near import RelaySource

__all__ = ["FarHalf", "ListeningRelay", "NoRelay", "RelaySource"]
