"""Recordings that the user starts and ends in the app."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop.cli.errors import UserError
from jaxtop.cli.record import begin, default_name
from jaxtop.cli.words import length, size
from jaxtop.sources import SessionRecorder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.model import Cluster
    from jaxtop.wire import Frame


class KeyRecorder:
    """A recorder that the user switches on and off."""

    def __init__(self) -> None:
        self._taping: SessionRecorder | None = None
        self._begun = 0.0
        self._failure = ""
        self._ending: list[threading.Thread] = []
        self._cluster: Cluster | None = None

    def take(self, frames: Sequence[Frame], cluster: Cluster, now: float) -> None:
        """Record the frames that the cluster has just folded, if it is on."""
        self._cluster = cluster
        if self._taping is None:
            return
        self._taping.take(frames, cluster, now)
        if self._taping.tape.failure is not None:
            self._failure = f"the recording ended: {self._taping.tape.failure}"
            self._taping = None

    def close(self) -> None:
        """End the recording cleanly, and wait for all that are ending."""
        if self._taping is not None:
            self.toggle()
        for each in self._ending:
            each.join()

    # The interface for the app

    @property
    def is_on(self) -> bool:
        return self._taping is not None

    @property
    def status(self) -> str:
        if self._taping is None:
            return self._failure
        return f"{size(self._taping.tape.size)}, {length(time.monotonic() - self._begun)}"

    def toggle(self) -> str:
        """Begin or end a recording; return in words what was done."""
        taping, cluster = self._taping, self._cluster
        if cluster is None:
            return "there is nothing to record yet"
        if taping is not None:
            self._taping = None
            said = f"recorded {size(taping.tape.size)} to {taping.tape.path}"
            # A frozen copy, because the app continues to fold.
            now = (cluster.frozen(),)
            ending = threading.Thread(target=taping.finish, args=now, name="jaxtop recording's end")
            ending.start()
            self._ending.append(ending)
            return said
        try:
            tape = begin(Path(default_name(cluster)).absolute())
        except UserError as error:
            return str(error)
        self._taping, self._begun, self._failure = SessionRecorder(tape), time.monotonic(), ""
        return f"recording to {tape.path}"
