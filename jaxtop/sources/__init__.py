"""Sources of frames: the live cluster and recordings of it; and the recorder."""

from jaxtop.sources.live import LiveSource
from jaxtop.sources.recorder import SessionRecorder
from jaxtop.sources.seeking import Seed
from jaxtop.sources.session import Session
from jaxtop.sources.source import Source

__all__ = ["LiveSource", "Seed", "Session", "SessionRecorder", "Source"]
