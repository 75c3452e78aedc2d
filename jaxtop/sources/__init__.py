"""Where frames come from: the live cluster (recordings and others join it here)."""

from jaxtop.sources.live import LiveSource
from jaxtop.sources.seed import Seed

__all__ = ["LiveSource", "Seed"]
