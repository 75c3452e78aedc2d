"""Recordings: frames in ordinary MCAP files. A killed writer loses little, and truncated files can be read.

A file has one channel for each agent and kind of message. The data of a message is the frame's raw
MessagePack, and its log time is the time of the frame. At intervals the file contains a keyframe: the state
at that time, from which reading can begin. All keyframes share one channel. Metadata records between the
chunks list which chunks are keyframes, which channels exist, and what happened since the previous keyframe. A
finished file repeats all of this in an attachment at its end, and opening the file reads only that.

Around this package:

- sources/recorder.py: gives folded frames to a recording, and a keyframe from time to time
- recording/layout.py: what writer and reader share
- recording/thread.py, writer.py, container.py, file.py: writes MCAP files on its own thread, each complete at
  any time
- recording/compact.py: rewrites a finished one in large chunks
- recording/schemas.py: JSON Schemas of the messages, generated from their types; each file has those of
  its kinds
- recording/index.py, chunks.py, reader.py: reads files that are finished, growing or damaged
- sources/streams.py, starts.py, session.py, overview.py: files of one writer in order, writers side by
  side; where folding begins; the cluster at any time; the session over time
- tui/playback.py: where the view is in time: the only place that knows live from replay
- export/mcap_json.py, decoded_messages.py: a session as JSON for other viewers, from messages
  that are decoded without types and named by their schemas
- agent/jaxtop_agent/blackbox.py, cli/live/rewind.py: the same recording inside an agent, and of a live view
"""

from jaxtop.recording.compact import compact
from jaxtop.recording.index import NotARecording
from jaxtop.recording.layout import KeyframeAt
from jaxtop.recording.reader import Recording
from jaxtop.recording.thread import RecordingLimits, RecordingWriter
from jaxtop.recording.writer import Keyframe, Writer

__all__ = [
    "Keyframe", "KeyframeAt", "NotARecording", "Recording", "RecordingLimits", "RecordingWriter",
    "Writer", "compact",
]  # fmt: skip
