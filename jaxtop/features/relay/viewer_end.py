"""The viewer end: it runs the command that leads to the relay end, and yields the frames from there."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING

from jaxtop.base import debuglog
from jaxtop.base.clock import steady
from jaxtop.base.names import shorten
from jaxtop.features.relay import stream
from jaxtop.features.relay.conversation import Conversation, NoRelay, shown
from jaxtop.features.relay.process import RelayProcess
from jaxtop.sources.source import Unreached

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Sequence

    from jaxtop import wire

# The user may have to type a password.
OPEN_WITHIN_S = 120.0
SOONEST_RETRY_S, RAREST_RETRY_S = 1.0, 30.0
POLL_S = 0.25
# The most reads of one poll: a relay end that never stops sending must not hold up the viewer.
READS_AT_ONCE = 16
# What the command writes is shown only if opening takes longer than this. If the command ends before, the
# error has that text.
SHOW_AFTER_S = 2.0
LONGEST_NAME = 48
# What a shell returns for a command that it cannot find.
NOT_FOUND = 127


class RelaySource:
    """Frames from the relay end. After a cut it runs the command again, and says so.

    Args:
        way: The command to the other side: `ssh login01`. The relay end's command line replaces `{}`
            in one of its words, or is appended.
        wanted: What to follow there.
        far: The relay end's own command line.
        clock: The current time.
        show: Receives the lines that the command writes for the user before the connection is open.
        name: What errors call the way; the command by default.
    """

    def __init__(
        self,
        way: Sequence[str],
        wanted: stream.Open,
        far: Sequence[str] = ("jaxtop", "relay", "--stdio"),
        clock: Callable[[], float] = steady,
        show: Callable[[str], None] = lambda _: None,
        *,
        name: str = "",
    ) -> None:
        self._name = f"`{name or shorten(shlex.join(way), LONGEST_NAME)}`"
        self._wanted = wanted
        self._command = [word.replace("{}", shlex.join(far)) for word in way]
        if self._command == list(way):
            self._command += far
        self._clock = clock
        self._cut_at = self._retry_at = self._open_by = 0.0
        self._why_cut = ""
        self._retry_s = SOONEST_RETRY_S
        self._process: RelayProcess | None = None
        self._conversation: Conversation
        self._wait_until_open(self._begin(may_ask=True), show)

    @property
    def rejected(self) -> Counter[str]:
        return self._conversation.rejected

    @property
    def is_settled(self) -> bool:
        return self._conversation.is_open and self._conversation.status.is_settled

    @property
    def notes(self) -> list[str]:
        if self._conversation.is_open:
            return [shown(each) for each in self._conversation.status.notes]
        seconds = round(self._clock() - self._cut_at)
        return [f"the connection through {self._name} was lost {seconds} s ago: {self._why_cut}"]

    def poll(self, timeout: float) -> list[wire.Frame]:
        try:
            if self._process is None and self._clock() >= self._retry_at:
                self._begin(may_ask=False)
            if self._process is None:
                time.sleep(min(timeout, POLL_S))
            else:
                self._conversation.advance(self._clock())
                self._process.wait(min(timeout, POLL_S))
                self._take(self._process)
        except NoRelay as error:
            self._lose(str(error))
        return self._conversation.take()

    def request(self, agent: str, request: wire.Request, done: Callable[[wire.Reply | None], None]) -> None:
        self._conversation.request(agent, request, self._clock(), done)

    def close(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None

    def _begin(self, *, may_ask: bool) -> RelayProcess:
        try:
            process = self._process = RelayProcess(self._command, may_ask=may_ask)
        except OSError as error:
            raise NoRelay(f"{self._command[0]} cannot be run: {error.strerror or error}") from None
        now = self._clock()
        self._conversation = Conversation(self._name, process.send, now)
        self._open_by = now + OPEN_WITHIN_S
        process.send(self._wanted)
        return process

    def _wait_until_open(self, process: RelayProcess, show: Callable[[str], None]) -> None:
        begun = self._clock()
        try:
            while not self._conversation.is_open:
                process.wait(POLL_S)
                self._take(process)
                is_slow = self._clock() - begun > SHOW_AFTER_S
                if is_slow or self._conversation.is_open:
                    for line in process.lines():
                        if is_slow or line.startswith("jaxtop: "):
                            show(line)
        except BaseException:
            self.close()
            raise

    def _take(self, process: RelayProcess) -> None:
        """Process what the relay end has sent; raise `NoRelay` when it has ended or makes no sense."""
        now = self._clock()
        was_open = self._conversation.is_open
        for _ in range(READS_AT_ONCE):
            data = process.read()
            if data is None:
                raise NoRelay(self._why_ended(process))
            if not data:
                break
            self._conversation.heard(now)
            try:
                for message in process.reader.feed(data):
                    self._conversation.process(message, now)
            except stream.OtherVersion as error:
                words = stream.other_version(shown(str(error)))
                raise NoRelay(f"the jaxtop behind {self._name} {words}") from None
            except stream.Garbled as error:
                raise NoRelay(f"{self._name} does not lead to `jaxtop relay`: {shown(str(error))}") from None
        if self._conversation.is_open and not was_open:
            self._retry_s = SOONEST_RETRY_S
        if not self._conversation.is_open and now > self._open_by:
            last = f": {process.last_line}" if process.last_line else ""
            raise NoRelay(f"{self._name} was not connected after {OPEN_WITHIN_S:.0f} s{last}")

    def _why_ended(self, process: RelayProcess) -> str:
        status, last = process.status(), process.last_line
        if status == NOT_FOUND or "not found" in last or "execve(): jaxtop:" in last:  # that is Slurm
            return (
                f"{self._name} finds no jaxtop on the other side ({last or f'status {status}'}): install "
                "it there, or put its folder into PATH: --via 'ssh HOST PATH=$HOME/venv/bin:$PATH'"
            )
        if last:
            return f"{self._name} ended: {last}"
        if self._conversation.is_open:
            return f"{self._name} ended with status {status}"
        return (
            f"{self._name} ended with status {status} without running `jaxtop relay`: --via needs a command "
            "that runs the words after it elsewhere, such as 'ssh login01'"
        )

    def _lose(self, why: str) -> None:
        """Note a cut: every agent is out of reach until the next connection."""
        debuglog.warning("relay", f"lost through {self._name}", why)
        self.close()
        now = self._clock()
        if self._conversation.is_open:
            self._cut_at = now
        self._conversation.end(now)
        self._why_cut = why
        self._retry_at = now + self._retry_s
        self._retry_s = min(self._retry_s * 2, RAREST_RETRY_S)


def open_through(
    way: Sequence[str], wanted: Sequence[str], owner: str | None, name: str, show: Callable[[str], None]
) -> RelaySource:
    """Return the source of what is wanted on the other side of a command.

    Raises:
        Unreached: The command or the relay end failed.
    """
    try:
        return RelaySource(way, stream.Open(tuple(wanted), owner), show=show, name=name)
    except NoRelay as error:
        raise Unreached(str(error)) from None
