"""The black box: the agent's messages, written to files, so that the last minutes survive the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop import wire
from jaxtop.base import private, processes
from jaxtop.base.clock import steady
from jaxtop.base.names import as_file_name, reason
from jaxtop.recording import Keyframe, RecordingLimits, RecordingWriter

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from jaxtop_agent.core.board import Board

# The recording is split into one file per minute; only the newest files are kept.
FILE_SECONDS = 60.0
# The size of all files of a recording together.
MAX_RECORDING_BYTES = 8 << 20
# The flush interval is shorter than the default pulse interval, so that SIGKILL loses at most one pulse.
FLUSH_EVERY = 0.75
MOST_WAITING = 4 << 20
SOURCE = "recording"
# A disk counts as not answering after this many seconds and this many messages. Seconds alone would not do:
# a stopped process sends no messages.
NO_ANSWER, NO_ANSWER_TAKES = 10.0, 10


class BlackBox:
    """The recording of one agent. The publisher never waits for it; `run` needs its own thread."""

    def __init__(self, board: Board, record: Path, minutes: int) -> None:
        """Record into this folder; for a file name ending in .mcap, into its folder and under its name."""
        self._board = board
        identity = board.identity
        is_file = record.suffix == ".mcap"
        self._folder, stem = (record.parent, record.stem) if is_file else (record, identity.name or "")
        name = (
            f"{as_file_name(stem)}-{as_file_name(identity.hostname)}-{identity.pid}-{identity.agent[:6]}.mcap"
        )
        about = {
            "writer": identity.agent,
            "agent": identity.agent,
            "name": identity.name or "",
            **processes.identity_of_this_process(),
        }
        self._writer = RecordingWriter(
            self._folder / name,
            about,
            RecordingLimits(MAX_RECORDING_BYTES, FILE_SECONDS, minutes or None, MOST_WAITING),
            flush_every=FLUSH_EVERY,
            compacts=False,
        )
        self._clock: tuple[float, float | None] | None = None
        # When the writer's turn counter last rose, and how many messages have arrived since.
        self._turns, self._turned_at, self._takes = 0, steady(), 0
        board.sources[SOURCE] = f"on: {self._folder}"
        board.publisher.is_recording = True

    def run(self) -> None:
        """Write until `end` is called; errors of the disk do not leave this method."""
        try:
            private.make(self._folder)
        except Exception as error:
            self._writer.failure = reason(error)
            return
        self._writer.run()

    @property
    def is_over(self) -> bool:
        """Whether nothing more is written."""
        return self._writer.is_over

    @property
    def failure(self) -> str:
        return self._writer.failure or ""

    @property
    def path(self) -> Path:
        """The newest file."""
        return self._writer.path

    @property
    def wants_keyframe(self) -> bool:
        """Whether a new file was begun, which must start with the full state."""
        return self._writer.wants_keyframe and not self._writer.is_over

    def take(self, kind: str, sequence: int, payload: bytes) -> None:
        board, writer = self._board, self._writer
        if writer.is_over:
            if board.publisher.is_recording:
                board.publisher.is_recording = False
                board.sources[SOURCE] = f"off: {writer.failure or 'ended'}"
            return
        self._watch_disk()
        writer.write([wire.Frame(steady(), board.identity.agent, kind, sequence, payload)])
        clock = board.registrar.clock_offset, board.registrar.clock_error
        if board.registrar.clock_error is not None and clock != self._clock:
            self._clock = clock
            writer.note_clock(*clock)

    def _watch_disk(self) -> None:
        now, writer = steady(), self._writer
        if writer.turns != self._turns:
            self._turns, self._turned_at, self._takes = writer.turns, now, 0
        self._takes += 1
        is_stuck = self._takes > NO_ANSWER_TAKES and now - self._turned_at > NO_ANSWER
        state = "waiting: the disk does not answer" if is_stuck else f"on: {self._folder}"
        if self._board.sources[SOURCE] != state:
            self._board.sources[SOURCE] = state

    def take_state(self, state: Iterable[tuple[str, bytes]]) -> None:
        """Record the full state, from which a reader can start."""
        at, agent = steady(), self._board.identity.agent
        frames = tuple(wire.Frame(at, agent, kind, wire.LOCAL_SEQUENCE, raw) for kind, raw in state)
        self._writer.write_keyframe(Keyframe(at, frames))

    def end(self) -> None:
        """Announce that no more messages follow; return at once."""
        self._writer.end()

    def after_fork(self) -> None:
        self._writer.after_fork()
