"""Captures that the user takes in the app."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base.clock import steady
from jaxtop.base.units import size
from jaxtop.cli.errors import UserError
from jaxtop.cli.text.words import note
from jaxtop.features.captures.capture import Capture
from jaxtop.features.captures.command import SIZE, begun, default_folder, wish_of
from jaxtop.features.captures.finish import known
from jaxtop.features.captures.member import doing
from jaxtop.features.captures.result import bar, failures, finished
from jaxtop.model.host import run_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtop.features.captures.finish import ProcessesAtStart
    from jaxtop.features.captures.folder import CaptureFolder
    from jaxtop.model import Cluster

# The key captures the first processes only: `jaxtop capture` can take more, or others.
MAX_PROCESSES = 8
# The rest of the merging thread between events, in seconds, so that keys stay quick.
REST_S = 0.002
# The seconds in which processes are told that the app ends.
FAREWELL_S = 2.0
# A merge that takes longer when the app ends is announced.
QUIET_S = 0.3


class _OpenCapture(NamedTuple):
    """A capture under way, its folder, and what was known when it began."""

    job: Capture
    folder: CaptureFolder
    known: ProcessesAtStart


class AppCapturer:
    """Begins captures, and finishes them on a thread of its own.

    `start` has a capture advanced by the thread that polls the source.
    """

    def __init__(self, start: Callable[[Capture], None]) -> None:
        self._start = start
        self._taking: _OpenCapture | None = None
        self._finishing: threading.Thread | None = None
        self._share = 0.0
        self._ended: list[tuple[str, bool]] = []

    # The interface for the app

    @property
    def status(self) -> str:
        if self._finishing is not None:
            return f"merging the capture {bar(self._share)}"
        if self._taking is None:
            return ""
        members = list(self._taking.job.members.values())
        received = sum(each.received for each in members)
        done = f", {size(received)}" if received else ""
        return f"capture: {doing(members, time.monotonic())}{done}; C gives it up"

    def toggle(self, cluster: Cluster, agents: Sequence[str]) -> str:
        if self._finishing is not None:
            return "the last capture is being merged"
        if self._taking is not None:
            self._taking.job.stop()
            return "giving up the capture"
        agents = [agent for agent in agents if cluster.hosts[agent].hello is not None]
        if not agents:
            return "no live process to ask"
        runs = len({run_of(cluster.hosts[agent]) for agent in agents})
        if runs > 1:
            return f"{runs} runs are shown, a capture is of one: `jaxtop capture RUN` takes it"
        among = sorted(agents, key=lambda agent: cluster.hosts[agent].process_index or 0)[:MAX_PROCESSES]
        try:
            folder = begun(default_folder([cluster.hosts[agent] for agent in among]))
        except UserError as error:
            return str(error)
        about = known(cluster, among)
        names = {agent: about.file_name(agent) for agent in among}
        job = Capture(among, wish_of(None, None, SIZE), lambda agent: folder.draft(names[agent]), steady())
        self._taking = _OpenCapture(job, folder, about)
        self._start(job)
        many = "1 process" if len(among) == 1 else f"{len(among)} processes"
        rest = "; `jaxtop capture --hosts` takes others" if len(among) < len(agents) else ""
        return f"capturing {many}{rest}"

    def ended(self) -> list[tuple[str, bool]]:
        if self._finishing is not None:
            if not self._finishing.is_alive():
                self._taking = self._finishing = None
        elif self._taking is not None and self._taking.job.is_done:
            self._finishing = threading.Thread(
                target=self._finish, args=self._taking, name="jaxtop capture's end", daemon=True
            )
            self._finishing.start()
        return [self._ended.pop(0) for _ in range(len(self._ended))]  # the finishing thread appends to it

    # When the app ends

    def leave(self) -> None:
        """Give up a capture under way, while the source is still polled."""
        if self._taking is None or self._finishing is not None:
            return
        self._taking.job.stop()
        end = time.monotonic() + FAREWELL_S
        while not self._taking.job.is_done and time.monotonic() < end:
            time.sleep(REST_S)

    def close(self) -> None:
        """Wait until the files of a capture are written, or removed if it was given up."""
        self.ended()
        if self._finishing is None or self._taking is None:
            return
        self._finishing.join(QUIET_S)
        if self._finishing.is_alive():
            note(f"merging the capture in {self._taking.folder.root}, this may take minutes")
            self._finishing.join()

    def _finish(self, job: Capture, folder: CaptureFolder, about: ProcessesAtStart) -> None:
        try:
            result = finished(folder, about, job, self._note_share, pause=lambda: time.sleep(REST_S))
        except UserError as error:
            self._ended.append((str(error), False))
            return
        except Exception as error:  # noqa: BLE001 - the user must learn of it
            self._ended.append((f"the capture cannot be finished: {type(error).__name__}: {error}", False))
            return
        failed = failures(about, job)
        many = f"captured {len(job.complete)} of {len(job.members)} processes to {result.folder.root}"
        merged = (
            f"no merged trace: {result.why_not_merged}"
            if result.why_not_merged
            else f"{result.folder.perfetto.name} opens in ui.perfetto.dev, the folder in XProf"
        )
        self._ended.append(("; ".join([many, merged, *failed, *result.notes]), not failed))

    def _note_share(self, share: float) -> None:
        self._share = share
