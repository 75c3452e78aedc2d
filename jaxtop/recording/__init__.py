"""Recordings: frames in ordinary MCAP files. A killed writer loses little, and truncated files can be read.

A file has one channel for each agent and kind of message. The data of a message is the frame's raw
MessagePack, and its log time is the time of the frame. At intervals the file contains a keyframe: the state
at that time, from which reading can begin. All keyframes share one channel. Metadata records between the
chunks list which chunks are keyframes, which channels exist, and what happened since the previous keyframe. A
finished file repeats all of this in an attachment at its end, and opening the file reads only that.
"""

from jaxtop.recording.compact import compact
from jaxtop.recording.index import NotARecording
from jaxtop.recording.layout import KeyframeAt
from jaxtop.recording.reader import Recording
from jaxtop.recording.thread import Limits, RecordingWriter
from jaxtop.recording.writer import Keyframe, Writer

__all__ = [
    "Keyframe", "KeyframeAt", "Limits", "NotARecording", "Recording", "RecordingWriter", "Writer",
    "compact",
]  # fmt: skip
