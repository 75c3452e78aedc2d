"""Recordings that the user starts and ends in the app."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop.base.units import length, size
from jaxtop.cli.errors import UserError
from jaxtop.cli.record import begin, default_name
from jaxtop.sources import SessionRecorder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.model import Cluster
    from jaxtop.wire import Frame


class AppRecorder:
    """A recorder that the user switches on and off."""

    def __init__(self) -> None:
        self._recorder: SessionRecorder | None = None
        self._begun = 0.0
        self._failure = ""
        self._ending: list[threading.Thread] = []
        self._ended: list[str] = []
        self._cluster: Cluster | None = None

    def take(self, frames: Sequence[Frame], cluster: Cluster, now: float) -> None:
        """Record the frames that the cluster has just folded, if it is on."""
        self._cluster = cluster
        if self._recorder is None:
            return
        self._recorder.take(frames, cluster, now)
        if self._recorder.writer.failure is not None:
            self._failure = f"recording stopped: {self._recorder.writer.failure}"
            self._recorder = None

    def close(self) -> None:
        """End the recording cleanly, and wait for all that are ending."""
        if self._recorder is not None:
            self.toggle()
        for each in self._ending:
            each.join()

    # The interface for the app

    @property
    def is_on(self) -> bool:
        return self._recorder is not None

    @property
    def status(self) -> str:
        if self._recorder is None:
            return self._failure
        return f"{size(self._recorder.writer.size)}, {length(time.monotonic() - self._begun)}"

    def ended(self) -> list[str]:
        return [self._ended.pop(0) for _ in range(len(self._ended))]  # the ending threads append to it

    def toggle(self) -> str:
        """Begin or end a recording; return in words what was done."""
        recorder, cluster = self._recorder, self._cluster
        if cluster is None:
            return "nothing to record yet"
        if recorder is not None:
            self._recorder = None
            # A frozen copy, because the app continues to fold.
            last = (recorder, cluster.frozen())
            ending = threading.Thread(target=self._finish, args=last, name="jaxtop recording's end")
            ending.start()
            self._ending.append(ending)
            return f"finishing {recorder.writer.path}"
        try:
            writer = begin(Path(default_name(cluster)).absolute())
        except UserError as error:
            return str(error)
        self._recorder, self._begun, self._failure = SessionRecorder(writer), time.monotonic(), ""
        return f"recording to {writer.path}"

    def _finish(self, recorder: SessionRecorder, cluster: Cluster) -> None:
        recorder.finish(cluster)
        writer = recorder.writer
        if writer.failure is not None:
            self._ended.append(f"the recording ended early: {writer.failure}; see {writer.path}")
        else:
            self._ended.append(f"recorded {size(writer.size)} to {writer.path}")
