"""A viewer in two halves: the far half collects frames, the near half shows them; a command connects them."""

from jaxtop.sources.relay.far import FarHalf
from jaxtop.sources.relay.near import NoRelay, RelaySource

__all__ = ["FarHalf", "NoRelay", "RelaySource"]
