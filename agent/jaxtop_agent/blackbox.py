"""The black box: what the agent says, kept in files, so that the last minutes outlive the process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop import private, processes, wire
from jaxtop.clock import steady
from jaxtop.recording import Keyframe, Limits, RecordingWriter, plain, reason

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from jaxtop_agent.core.board import Board

# A file each minute, of which the last ones are kept.
SECONDS, LARGEST = 60.0, 8 << 20
# Less than the usual interval: SIGKILL costs at most the pulse that came last.
FLUSH_EVERY = 0.75
MOST_WAITING = 4 << 20
SOURCE = "recording"
# A disk is said not to answer after so many seconds and messages: a process that was stopped sends none.
NO_ANSWER, NO_ANSWER_TAKES = 10.0, 10


class BlackBox:
    """Fed by the publisher, which never waits for it; `run` is for a thread of its own."""

    def __init__(self, board: Board, record: str | os.PathLike[str], minutes: int) -> None:
        """A black box in this folder; of a file name ending in .mcap, beside it and called after it."""
        self._board = board
        identity = board.identity
        asked = Path(record).expanduser()
        folder, stem = (asked.parent, asked.stem) if asked.suffix == ".mcap" else (asked, identity.name)
        self._folder = folder.absolute()  # the script may go elsewhere
        name = f"{plain(stem)}-{plain(identity.hostname)}-{identity.pid}-{identity.agent[:6]}.mcap"
        about = {
            "tape": identity.agent,
            "agent": identity.agent,
            "name": identity.name,
            **processes.about_this(),
        }
        self._tape = RecordingWriter(
            self._folder / name,
            about,
            Limits(LARGEST, SECONDS, minutes or None, MOST_WAITING),
            flush_every=FLUSH_EVERY,
            compacts=False,
        )
        self._clock: tuple[float, float | None] | None = None
        # When the tape's turns rose last, and how many messages came since.
        self._turns, self._turned_at, self._takes = 0, steady(), 0
        board.sources[SOURCE] = f"on: {self._folder}"
        board.is_recording = True

    def run(self) -> None:
        """Write until told to end; whatever a disk does stays in here."""
        try:
            private.make(self._folder)
        except Exception as error:
            self._tape.failure = reason(error)
            return
        self._tape.run()

    @property
    def wants_keyframe(self) -> bool:
        """Whether a file was begun, which should have the whole state at its beginning."""
        return self._tape.wants_keyframe and not self._tape.is_over

    def take(self, kind: str, sequence: int, payload: bytes) -> None:
        """Keep a message that goes out now."""
        board, tape = self._board, self._tape
        if tape.is_over:
            if board.is_recording:
                board.is_recording = False
                board.sources[SOURCE] = f"off: {tape.failure or 'ended'}"
            return
        self._watch_disk()
        tape.write([wire.Frame(steady(), board.identity.agent, kind, sequence, payload)])
        clock = board.clock_offset, board.clock_error
        if board.clock_error is not None and clock != self._clock:
            self._clock = clock
            tape.note_clock(*clock)

    def _watch_disk(self) -> None:
        now, tape = steady(), self._tape
        if tape.turns != self._turns:
            self._turns, self._turned_at, self._takes = tape.turns, now, 0
        self._takes += 1
        is_stuck = self._takes > NO_ANSWER_TAKES and now - self._turned_at > NO_ANSWER
        said = "waiting: the disk does not answer" if is_stuck else f"on: {self._folder}"
        if self._board.sources[SOURCE] != said:
            self._board.sources[SOURCE] = said

    def take_state(self, state: Iterable[tuple[str, bytes]]) -> None:
        """Keep the whole state, from which reading can begin."""
        at, agent = steady(), self._board.identity.agent
        frames = tuple(wire.Frame(at, agent, kind, wire.LOCAL_SEQUENCE, raw) for kind, raw in state)
        self._tape.write_keyframe(Keyframe(at, frames))

    def end(self) -> None:
        """The last message was given; returns at once."""
        self._tape.end()

    def forsake(self) -> None:
        """In a forked child: the files are the parent's."""
        self._tape.forsake()
