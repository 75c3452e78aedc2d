"""Records the folded session: the frames as received, and keyframes, so that any moment opens quickly."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from jaxtop.model import keyframe
from jaxtop.model.session.summary import SummarySampler
from jaxtop.recording import Keyframe, RecordingWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.model import Cluster
    from jaxtop.wire import Frame

# Opening a moment folds about this much at most.
FRAMES_BETWEEN, BYTES_BETWEEN = 1_000, 4 << 20
SECONDS_BETWEEN = 10.0
# With few hosts, most of the time to open a moment goes to the checks of findings since the keyframe. So
# after this time, fewer frames are enough.
MANY_SECONDS_BETWEEN, FEWER_FRAMES_BETWEEN = 30.0, 200
# The most bins in a keyframe's summary of the time since the previous one.
MOST_BINS = 64


class SessionRecorder:
    """Write the frames of one cluster to a recording, and the cluster itself at intervals."""

    def __init__(self, writer: RecordingWriter) -> None:
        self.writer = writer
        self._sampler = SummarySampler()
        self._frames = self._bytes = 0
        self._last: float | None = None
        self._at: float | None = None

    def begin(self, cluster: Cluster, at: float) -> None:
        """Begin with a cluster that has folded all frames up to this time."""
        self._put_keyframe(cluster, at, is_whole=True)

    def take(self, frames: Sequence[Frame], cluster: Cluster, now: float) -> None:
        if self._last is None and self._at is None and cluster.changes > len(frames):
            # The cluster has folded earlier frames. The keyframe has them and these; queued ones are later.
            self.begin(cluster, frames[-1].at if frames else now)
        elif frames:
            self.writer.write(frames)
            self._at = frames[-1].at
            self._frames += len(frames)
            self._bytes += sum(len(frame.raw) for frame in frames)
        self._sampler.sample(cluster, now)
        if self._at is not None and self._is_due(now):
            self._put_keyframe(cluster, self._at, is_whole=self.writer.wants_keyframe)

    def finish(self, cluster: Cluster) -> None:
        """End the recording. A last keyframe summarises the time since the previous one, in the last file."""
        try:
            if self._at is not None:
                self._put_keyframe(cluster, self._at, is_whole=False)
        finally:
            self.writer.finish()

    def _is_due(self, now: float) -> bool:
        if self.writer.wants_keyframe:
            return True
        passed = math.inf if self._last is None else now - self._last
        if passed < SECONDS_BETWEEN:
            return False
        if self._frames >= FRAMES_BETWEEN or self._bytes >= BYTES_BETWEEN:
            return True
        # A keyframe with many arrays may be much larger than the frames that it replaces.
        is_worth_it = self._frames >= FEWER_FRAMES_BETWEEN and self._bytes >= self.writer.keyframe_bytes
        return passed >= MANY_SECONDS_BETWEEN and is_worth_it

    def _put_keyframe(self, cluster: Cluster, at: float, *, is_whole: bool) -> None:
        overview = self._sampler.take(cluster).coarser(MOST_BINS)
        happened = {"bins": overview.bins, "events": overview.events}
        # The first keyframe of a file contains the windows. Later ones point to windows already in the file.
        # The writing thread encodes it: doing so here would delay keys if there are a thousand hosts.
        state = keyframe.frames(cluster.frozen(), at, has_windows=is_whole)
        self.writer.write_keyframe(Keyframe(at, state, happened, is_whole))
        self._last, self._frames, self._bytes = at, 0, 0
