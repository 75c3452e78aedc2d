"""Where frames come from: the live cluster, recordings of it; and what records them."""

from jaxtop.sources.live import LiveSource
from jaxtop.sources.recorder import SessionRecorder
from jaxtop.sources.seed import Seed
from jaxtop.sources.session import Session

__all__ = ["LiveSource", "Seed", "Session", "SessionRecorder"]
