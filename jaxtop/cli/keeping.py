"""What the app keeps of a live session: all since it was opened, to go back to; and recordings on request."""

from __future__ import annotations

import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop.cli.errors import UserError
from jaxtop.cli.record import begin, default_name
from jaxtop.cli.words import length, size
from jaxtop.cluster.overview import Overview
from jaxtop.recordings import NotARecording, Tape
from jaxtop.sources import Session, Taping

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.cluster import Cluster
    from jaxtop.wire import Frame

# What was given to the tape is in its file after this long, or the person waits for it no more.
PATIENCE = 0.5


class Kept:
    """A reel of what was seen since the start: on the disk, in a file without a name, gone at the end."""

    def __init__(self) -> None:
        self._taping: Taping | None = None
        self._session: Session | None = None
        self._why_not = ""
        path = Path(tempfile.mkdtemp(prefix="jaxtop-")) / "kept.mcap"
        tape = Tape(path, {"tape": "kept"}, compacts=False, is_unnamed=True)
        tape.start()
        try:
            self._session = Session([path])
            self._taping = Taping(tape)
        except NotARecording:
            self._why_not = f"nothing is kept to go back to: {tape.failure}"
        finally:
            for remove in (path.unlink, path.parent.rmdir):
                with suppress(OSError):
                    remove()

    def take(self, frames: Sequence[Frame], cluster: Cluster, now: float) -> None:
        """Keep what the cluster has just taken in."""
        if self._taping is not None:
            self._taping.take(frames, cluster, now)

    def close(self) -> None:
        if self._taping is not None:
            self._taping.tape.finish(PATIENCE)
        if self._session is not None:
            self._session.close()

    # What the app sees of it

    @property
    def span(self) -> tuple[float, float] | None:
        return self._session.span if self._session is not None else None

    @property
    def start(self) -> float | None:
        return self._session.start if self._session is not None else None

    @property
    def is_growing(self) -> bool:
        return True

    @property
    def overview(self) -> Overview:
        return self._session.overview if self._session is not None else Overview()

    @property
    def notes(self) -> tuple[str, ...]:
        if self._taping is None:
            return (self._why_not,)
        failure = self._taping.tape.failure
        return () if failure is None else (f"what comes from now on is not kept to go back to: {failure}",)

    def at(self, when: float) -> Cluster:
        assert self._session is not None  # there is a span
        span = self._session.span
        if self._taping is not None and (span is None or when > span[1]):
            self._taping.tape.sync(PATIENCE)
            self._session.refresh()
        return self._session.at(when)


class OnRequest:
    """Records to a file when a person wants it."""

    def __init__(self) -> None:
        self._taping: Taping | None = None
        self._begun = 0.0
        self._failure = ""
        self._ending: list[threading.Thread] = []
        self._cluster: Cluster | None = None

    def take(self, frames: Sequence[Frame], cluster: Cluster, now: float) -> None:
        """Record what the cluster has just taken in, while it is on."""
        self._cluster = cluster
        if self._taping is None:
            return
        self._taping.take(frames, cluster, now)
        if self._taping.tape.failure is not None:
            self._failure = f"the recording ended: {self._taping.tape.failure}"
            self._taping = None

    def close(self) -> None:
        """End what is recorded, in order."""
        if self._taping is not None:
            self.toggle()
        for each in self._ending:
            each.join()

    # What the app sees of it

    @property
    def is_on(self) -> bool:
        return self._taping is not None

    @property
    def status(self) -> str:
        if self._taping is None:
            return self._failure
        return f"{size(self._taping.tape.size)}, {length(time.monotonic() - self._begun)}"

    def toggle(self) -> str:
        """Begin, or end; says what it did."""
        taping, cluster = self._taping, self._cluster
        if cluster is None:
            return "there is nothing to record yet"
        if taping is not None:
            self._taping = None
            said = f"recorded {size(taping.tape.size)} to {taping.tape.path}"
            # As it is now: the app goes on to fold.
            now = (cluster.frozen(),)
            ending = threading.Thread(target=taping.finish, args=now, name="jaxtop recording's end")
            ending.start()
            self._ending.append(ending)
            return said
        try:
            tape = begin(Path(default_name(cluster)).absolute())
        except UserError as error:
            return str(error)
        self._taping, self._begun, self._failure = Taping(tape), time.monotonic(), ""
        return f"recording to {tape.path}"
