"""The near half: it runs the command that leads to the far half, and yields the frames from there."""

from __future__ import annotations

import os
import select
import shlex
import subprocess
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from jaxtop import debuglog, wire
from jaxtop.clock import steady
from jaxtop.names import shorten
from jaxtop.sources.relay import stream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# The user may have to type a password.
OPEN_WITHIN_S = 120.0
# The far half says something every two seconds. A command that says nothing for so long leads nowhere.
SILENT_S = 20.0
ANSWER_WITHIN_S = 10.0
SOONEST_RETRY_S, RAREST_RETRY_S = 1.0, 30.0
POLL_S = 0.25
AT_ONCE = 2_000
MOST_ERRORS, LAST_WORDS_S = 4096, 1.0
LONGEST_NAME = 48
# What a shell returns for a command that it cannot find.
NOT_FOUND = 127


class NoRelay(Exception):
    """The far half cannot be reached; the text says why and what to do."""


class _Asked(NamedTuple):
    done: Callable[[wire.Reply | None], None]
    until: float


class _Process:
    """The running command, and what it has said."""

    def __init__(self, command: Sequence[str], *, may_ask: bool) -> None:
        pipe = subprocess.PIPE
        # Without a terminal `ssh` cannot ask for a password, which would appear in the middle of the app.
        self._popen = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=not may_ask
        )
        assert self._popen.stdin and self._popen.stdout and self._popen.stderr  # noqa: PT018 - for mypy
        self.out, self.errors = self._popen.stdout.fileno(), self._popen.stderr.fileno()
        self._in = self._popen.stdin.fileno()
        for each in (self.out, self.errors, self._in):
            os.set_blocking(each, False)
        self.reader = stream.Reader()
        self._unsent = bytearray()
        self.complaints = ""

    def send(self, message: stream.Message) -> None:
        self._unsent += stream.pack(message)
        self.flush()

    def flush(self) -> None:
        with suppress(BlockingIOError, BrokenPipeError):
            while self._unsent:
                del self._unsent[: os.write(self._in, self._unsent[: 1 << 16])]

    def greet(self, message: stream.Message) -> None:
        self._unsent[:0] = stream.FIRST_LINE
        self.send(message)

    def read(self) -> bytes | None:
        """Return what has come; nothing if nothing has, None at the end."""
        self._listen()
        return _read(self.out)

    def status(self) -> int | None:
        """Return the exit status of a command whose output has ended, if it ends soon."""
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(LAST_WORDS_S)
        self._listen()
        return self._popen.poll()

    def end(self) -> None:
        for each in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
            if each is not None:
                each.close()
        for stop, seconds in ((None, 0.5), (self._popen.terminate, 2.0), (self._popen.kill, None)):
            if stop is not None:
                stop()
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(seconds)
                return

    def _listen(self) -> None:
        said = (_read(self.errors) or b"").decode("utf-8", "replace")
        self.complaints = (self.complaints + said)[-MOST_ERRORS:]


class RelaySource:
    """Frames from the far half. After a cut it runs the command again, and says so.

    Args:
        way: The command to the other side: `ssh login01`. The far half's command line replaces `{}`
            in one of its words, or is appended.
        wanted: What to follow there.
        far: The far half's own command line.
    """

    def __init__(
        self,
        way: Sequence[str],
        wanted: stream.Open,
        far: Sequence[str] = ("jaxtop", "relay", "--stdio"),
        clock: Callable[[], float] = steady,
    ) -> None:
        self._way, self._wanted = way, wanted
        self._command = [word.replace("{}", shlex.join(far)) for word in way]
        if self._command == list(way):
            self._command += far
        self._clock = clock
        self.rejected: Counter[str] = Counter()
        self._status = stream.Status()
        self._is_open = False
        self._heard_at = self._cut_at = self._retry_at = 0.0
        self._why_cut = ""
        self._retry_s = SOONEST_RETRY_S
        self._asked: dict[int, _Asked] = {}
        self._numbers = 0
        self._links: dict[str, wire.Link] = {}
        self._out: list[wire.Frame] = []
        self._process: _Process | None = None
        self._begin(may_ask=True)
        self._wait_until_open()

    @property
    def is_settled(self) -> bool:
        return self._is_open and self._status.is_settled

    @property
    def notes(self) -> list[str]:
        notes = list(self._status.notes) if self._is_open else []
        if not self._is_open:
            seconds = round(self._clock() - self._cut_at)
            notes.append(f"the connection through `{self._name}` was lost {seconds} s ago: {self._why_cut}")
        return notes

    @property
    def remarks(self) -> list[str]:
        """What the far half's jaxtop has written for the user."""
        complaints = self._process.complaints if self._process is not None else ""
        return [line for line in complaints.splitlines() if line.startswith("jaxtop: ")]

    def poll(self, timeout: float) -> list[wire.Frame]:
        try:
            if self._process is None and self._clock() >= self._retry_at:
                self._begin(may_ask=False)
            process = self._process
            if process is not None:
                process.flush()
            select.select([process.out] if process is not None else [], [], [], min(timeout, POLL_S))
            if process is not None:
                self._take(process)
        except NoRelay as error:
            self._lose(str(error))
        now = self._clock()
        for number in [number for number, asked in self._asked.items() if asked.until < now]:
            self._asked.pop(number).done(None)
        out, self._out = self._out, []
        return out

    def request(self, agent: str, request: wire.Request, done: Callable[[wire.Reply | None], None]) -> None:
        if self._process is None or not self._is_open:
            done(None)
            return
        self._numbers += 1
        self._asked[self._numbers] = _Asked(done, self._clock() + ANSWER_WITHIN_S)
        self._process.send(stream.Ask(self._numbers, agent, request))

    def close(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None

    @property
    def _name(self) -> str:
        return shorten(shlex.join(self._way), LONGEST_NAME)

    def _begin(self, *, may_ask: bool) -> None:
        try:
            self._process = _Process(self._command, may_ask=may_ask)
        except OSError as error:
            raise NoRelay(f"{self._command[0]} cannot be run: {error.strerror or error}") from None
        self._heard_at = self._clock()
        self._process.greet(self._wanted)

    def _wait_until_open(self) -> None:
        try:
            while not self._is_open and self._process is not None:
                select.select([self._process.out], [], [], POLL_S)
                self._take(self._process)
        except BaseException:
            self.close()
            raise

    def _take(self, process: _Process) -> None:
        """Process what the far half has sent; raise `NoRelay` when it has ended or makes no sense."""
        now = self._clock()
        while (data := process.read()) is None or data:
            if data is None:
                raise NoRelay(self._why_ended(process))
            self._heard_at = now
            try:
                for message in process.reader.feed(data):
                    self._process_message(message, now)
            except stream.OtherVersion as error:
                raise NoRelay(
                    f"the jaxtop behind `{self._name}` speaks version {error}, this one "
                    f"{stream.VERSION} wire {wire.VERSION}: install the same jaxtop on both sides"
                ) from None
            except stream.Garbled as error:
                raise NoRelay(f"`{self._name}` does not lead to `jaxtop relay`: {error}") from None
            if len(self._out) > AT_ONCE:
                return
        longest = SILENT_S if self._is_open else OPEN_WITHIN_S
        if now - self._heard_at > longest:
            raise NoRelay(f"`{self._name}` said nothing for {longest:.0f} s")

    def _process_message(self, message: stream.Message, now: float) -> None:
        match message:
            case stream.Opened():
                self._is_open, self._retry_s = True, SOONEST_RETRY_S
                debuglog.info("relay", f"open through {self._name}", message.jaxtop)
            case stream.Refused():
                raise NoRelay(f"{message.why} (through `{self._name}`)")
            case stream.Frames():
                self._out += [self._noted(wire.Frame(now, *each)) for each in message.frames]
            case stream.Answer():
                asked = self._asked.pop(message.number, None)
                if asked is not None:
                    asked.done(message.reply)
            case stream.Status():
                self._status = message
                self.rejected = Counter(message.rejected)

    def _noted(self, frame: wire.Frame) -> wire.Frame:
        """Remember the link to each agent: after a cut it is not up."""
        if frame.kind == "link" and frame.agent:
            with suppress(wire.Unreadable):
                link = wire.decode("link", frame.raw)
                if isinstance(link, wire.Link):
                    self._links[frame.agent] = link
        return frame

    def _why_ended(self, process: _Process) -> str:
        status = process.status()
        lines = [line.strip() for line in process.complaints.splitlines() if line.strip()]
        last = lines[-1] if lines else ""
        if status == NOT_FOUND or "not found" in last:
            return (
                f"`{self._name}` finds no jaxtop on the other side ({last or f'status {status}'}): install "
                "it there, or put its folder into PATH: --via 'ssh HOST PATH=$HOME/venv/bin:$PATH'"
            )
        return f"`{self._name}` ended" + (f": {last}" if last else f" with status {status}")

    def _lose(self, why: str) -> None:
        """Note a cut: every agent is out of reach until the next connection."""
        debuglog.warning("relay", f"lost through {self._name}", why)
        self.close()
        now = self._clock()
        if self._is_open:
            for agent, link in self._links.items():
                if link.state == "up":
                    lost = wire.Link("unreachable", link.endpoint, f"`{self._name}` was cut")
                    self._out.append(wire.local_frame(now, agent, lost))
            self._cut_at = now
        self._retry_at = now + self._retry_s
        self._retry_s = min(self._retry_s * 2, RAREST_RETRY_S)
        self._is_open, self._why_cut = False, why
        asked, self._asked = self._asked, {}
        for each in asked.values():
            each.done(None)


def _read(descriptor: int) -> bytes | None:
    """Return what can be read now; None at the end."""
    try:
        return os.read(descriptor, 1 << 18) or None
    except BlockingIOError:
        return b""
