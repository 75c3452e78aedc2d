"""The near half: it runs the command that leads to the far half, and yields the frames from there."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from jaxtop import debuglog, wire
from jaxtop.clock import steady
from jaxtop.names import shorten
from jaxtop.sources.relay import stream
from jaxtop.sources.relay.process import Process, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# The user may have to type a password.
OPEN_WITHIN_S = 120.0
# The far half sends a status every two seconds. After this time without one, the connection is lost.
SILENT_S = 20.0
# The viewer was suspended, or the machine slept, if two polls are this far apart.
LATE_S = 5.0
# Far less than `far.SILENT_S`, after which the far half ends.
ALIVE_EVERY_S = 5.0
ANSWER_WITHIN_S = 10.0
SOONEST_RETRY_S, RAREST_RETRY_S = 1.0, 30.0
POLL_S = 0.25
# The most reads of one poll: a far half that never stops sending must not hold up the viewer.
READS_AT_ONCE = 16
# The most agents whose links are remembered.
MOST_LINKS = wire.MAX_DEVICES
# Text of a command is shown while it opens only if that takes longer: that of a command that ends at once is
# in the error.
SHOW_AFTER_S = 2.0
LONGEST_NAME = 48
# What a shell returns for a command that it cannot find.
NOT_FOUND = 127


class NoRelay(Exception):
    """The far half cannot be reached; the text says why and what to do."""


class _Asked(NamedTuple):
    done: Callable[[wire.Reply | None], None]
    until: float


class RelaySource:
    """Frames from the far half. After a cut it runs the command again, and says so.

    Args:
        way: The command to the other side: `ssh login01`. The far half's command line replaces `{}`
            in one of its words, or is appended.
        wanted: What to follow there.
        far: The far half's own command line.
        clock: The current time.
        show: Receives the lines that the command writes for the user before the connection is open.
    """

    def __init__(
        self,
        way: Sequence[str],
        wanted: stream.Open,
        far: Sequence[str] = ("jaxtop", "relay", "--stdio"),
        clock: Callable[[], float] = steady,
        show: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._way, self._wanted = way, wanted
        self._command = [word.replace("{}", shlex.join(far)) for word in way]
        if self._command == list(way):
            self._command += far
        self._clock = clock
        self.rejected: Counter[str] = Counter()
        self._status = stream.Status()
        self._is_open = False
        self._open_by = self._heard_at = self._polled_at = self._alive_due = 0.0
        self._cut_at = self._retry_at = 0.0
        self._why_cut = ""
        self._retry_s = SOONEST_RETRY_S
        self._asked: dict[int, _Asked] = {}
        self._numbers = 0
        # The endpoints of the agents whose link is up.
        self._up: dict[str, str] = {}
        self._out: list[wire.Frame] = []
        self._process: Process | None = None
        self._wait_until_open(self._begin(may_ask=True), show)

    @property
    def is_settled(self) -> bool:
        return self._is_open and self._status.is_settled

    @property
    def notes(self) -> list[str]:
        if self._is_open:
            return [shown(each) for each in self._status.notes]
        seconds = round(self._clock() - self._cut_at)
        return [f"the connection through `{self._name}` was lost {seconds} s ago: {self._why_cut}"]

    def poll(self, timeout: float) -> list[wire.Frame]:
        now = self._clock()
        if now - self._polled_at > LATE_S:
            self._heard_at = now  # the far half cannot be blamed for a silence that this side did not watch
        self._polled_at = now
        try:
            if self._process is None and now >= self._retry_at:
                self._begin(may_ask=False)
            if self._process is None:
                time.sleep(min(timeout, POLL_S))
            else:
                if now >= self._alive_due:
                    self._alive_due = now + ALIVE_EVERY_S
                    self._process.send(stream.Alive())
                self._process.wait(min(timeout, POLL_S))
                self._take(self._process)
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

    def _begin(self, *, may_ask: bool) -> Process:
        try:
            process = self._process = Process(self._command, may_ask=may_ask)
        except OSError as error:
            raise NoRelay(f"{self._command[0]} cannot be run: {error.strerror or error}") from None
        self._status = stream.Status()
        self._open_by = self._clock() + OPEN_WITHIN_S
        process.send(self._wanted)
        return process

    def _wait_until_open(self, process: Process, show: Callable[[str], None]) -> None:
        begun = self._clock()
        try:
            while not self._is_open:
                process.wait(POLL_S)
                self._take(process)
                is_slow = self._clock() - begun > SHOW_AFTER_S
                if is_slow or self._is_open:
                    for line in process.lines():
                        if is_slow or line.startswith("jaxtop: "):
                            show(line)
        except BaseException:
            self.close()
            raise

    def _take(self, process: Process) -> None:
        """Process what the far half has sent; raise `NoRelay` when it has ended or makes no sense."""
        now = self._clock()
        for _ in range(READS_AT_ONCE):
            data = process.read()
            if data is None:
                raise NoRelay(self._why_ended(process))
            if not data:
                break
            self._heard_at = now
            try:
                for message in process.reader.feed(data):
                    self._process_message(message, now)
            except stream.OtherVersion as error:
                raise NoRelay(
                    f"the jaxtop behind `{self._name}` speaks version {shown(str(error))}, this one "
                    f"{stream.VERSION} wire {wire.VERSION}: install the same jaxtop on both sides"
                ) from None
            except stream.Garbled as error:
                raise NoRelay(
                    f"`{self._name}` does not lead to `jaxtop relay`: {shown(str(error))}"
                ) from None
        last = f": {process.last_line}" if process.last_line else ""
        if not self._is_open and now > self._open_by:
            raise NoRelay(f"`{self._name}` was not connected after {OPEN_WITHIN_S:.0f} s{last}")
        if self._is_open and now - self._heard_at > SILENT_S:
            raise NoRelay(f"`{self._name}` said nothing for {SILENT_S:.0f} s{last}")

    def _process_message(self, message: stream.Message, now: float) -> None:
        match message:
            case stream.Refused():
                raise NoRelay(f"{shown(message.why)} (through `{self._name}`)")
            case stream.Opened() if not self._is_open:
                self._is_open, self._retry_s = True, SOONEST_RETRY_S
                debuglog.info("relay", f"open through {self._name}", shown(message.jaxtop))
            case stream.Frames() if self._is_open:
                self._out += [self._noted(wire.Frame(now, *each)) for each in message.frames]
            case stream.Answer() if self._is_open:
                asked = self._asked.pop(message.number, None)
                if asked is not None:
                    asked.done(message.reply)
            case stream.Status() if self._is_open:
                self._status = message
                self.rejected = Counter({shown(why): count for why, count in message.rejected.items()})
            case _:
                raise stream.Garbled(f"an unexpected message ({type(message).__name__})")

    def _noted(self, frame: wire.Frame) -> wire.Frame:
        """Return the frame; remember which links are up, because a cut takes them down."""
        if frame.kind == "link":
            with suppress(wire.Unreadable):
                link = wire.decode("link", frame.raw)
                if not isinstance(link, wire.Link) or link.state != "up":
                    self._up.pop(frame.agent, None)
                elif frame.agent and len(self._up) < MOST_LINKS:
                    self._up[frame.agent] = link.endpoint
        elif frame.kind in wire.OWN_KINDS:
            raise stream.Garbled(f"a frame of kind {frame.kind}")
        return frame

    def _why_ended(self, process: Process) -> str:
        status, last = process.status(), process.last_line
        if status == NOT_FOUND or "not found" in last or "execve(): jaxtop:" in last:  # that is Slurm
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
            for agent, endpoint in self._up.items():
                lost = wire.Link("unreachable", endpoint, f"`{self._name}` was cut")
                self._out.append(wire.local_frame(now, agent, lost))
            self._up.clear()
            self._cut_at = now
        self._retry_at = now + self._retry_s
        self._retry_s = min(self._retry_s * 2, RAREST_RETRY_S)
        self._is_open, self._why_cut = False, why
        asked, self._asked = self._asked, {}
        for each in asked.values():
            each.done(None)
