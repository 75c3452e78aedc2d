"""Recordings: frames in ordinary MCAP files, written so that little is lost, and read wherever they end.

A file holds one channel for each agent and kind of message; a message's data is the frame's raw MessagePack,
its log time the time of the frame. Now and then stands a keyframe: the state at that time, on a channel that
all keyframes share, so that reading can begin there. Metadata records beside the chunks say which chunks
are keyframes, which channels there are, and what happened since the keyframe before. A finished file has all
of that once more in an attachment at its end, which is all that is read to open it.
"""

from jaxtop.recording.compact import compact
from jaxtop.recording.file import plain
from jaxtop.recording.index import KeyframeAt, NotARecording
from jaxtop.recording.reader import Recording
from jaxtop.recording.thread import Limits, RecordingWriter, reason
from jaxtop.recording.writer import Keyframe, Writer

__all__ = [
    "Keyframe",
    "KeyframeAt",
    "Limits",
    "NotARecording",
    "Recording",
    "RecordingWriter",
    "Writer",
    "compact",
    "plain",
    "reason",
]
