"""The publisher: the sockets and the pulse. It never calls JAX, so JAX cannot delay it."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from jaxtop import transport, wire
from jaxtop.base import debuglog, keys
from jaxtop.base.clock import steady
from jaxtop.store import runfiles
from jaxtop.store.last_frames import LastFrames
from jaxtop_agent.programs import fitting
from jaxtop_agent.service import addresses
from jaxtop_agent.service.logthread import ChangeLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jaxtop_agent.blackbox import BlackBox
    from jaxtop_agent.core.board import Board
    from jaxtop_agent.service.answers import Answers
    from jaxtop_agent.service.messages import Messages
    from jaxtop_agent.stalls.watch import Stalls

# Viewers that connect within this time are greeted together.
GREETING_INTERVAL = 0.25
AT_ONCE = 8
# The limit for the inventories sent to a new viewer; it holds thousands of collectives.
MOST_INVENTORY_BYTES = 1 << 20
IDLE_TURN = 1.0
HELLO_EVERY_S = 2.0
# After each round of answers the agent rests nine times as long: answers use at most a tenth of a core.
REST_AFTER_ANSWERS = 9


class Duty:
    """Something that the publisher does at each turn of its loop, or every this many seconds."""

    def __init__(
        self,
        do: Callable[[transport.Server], None],
        every: Callable[[], float] = float,
        due: float = -math.inf,
    ) -> None:
        self._do = do
        self._every = every
        self.due = due  # on the monotonic clock

    def do_if_due(self, server: transport.Server) -> None:
        now = time.monotonic()
        if now >= self.due:
            self.due = max(self.due + self._every(), now)  # it does not drift
            self._do(server)


class Publisher:
    """Runs on its own thread until `board.stopping`; that thread opens, uses and closes all sockets."""

    def __init__(
        self,
        board: Board,
        messages: Messages,
        stalls: Stalls,
        answers: Answers,
        *,
        bind: str,
        black_box: BlackBox | None = None,
    ) -> None:
        self._board = board
        self._messages = messages
        self._stalls = stalls
        self._answers = answers
        self._bind = bind
        self.black_box = black_box  # one may be begun later
        self._sequence: dict[str, int] = {}
        self._hello = b""  # as it was sent last
        self._last = LastFrames(
            {
                "arrays": self._census,
                "inventory": self._inventories,
                "stacks": self._stacks_if_still,
                "ledger": self._ledger,
                "pulse": self._whole_pulse,
            }
        )
        self._family_peers: tuple[wire.Peer, ...] = board.registrar.family_peers
        self._oversized = 0
        self._changes = ChangeLog()
        self._pulse = Duty(self._send_pulse, self._interval)
        self._greeting = Duty(self._greet, lambda: math.inf, math.inf)
        self.farewell = wire.SCRIPT_ENDED  # the reason that the last message gives
        self.server: transport.Server | None = None

    def run(self) -> None:
        try:
            self._publish_all()
        finally:
            self._end_black_box()

    def _end_black_box(self) -> None:
        if self.black_box is not None:
            self.black_box.end()

    def _publish_all(self) -> None:
        pair = keys.load()
        server = self.server = transport.Server(pair, keys.authorized)
        try:
            self._open(server, addresses.first_address(self._bind))
            server.watch_file(self._board.wakeups.publisher.fd)
            self._serve(server)
            before, bye = self._messages.last(self.farewell, self._oversized)
            for message in (*before, bye):
                self._send(server, message)
            self._end_black_box()  # before the sockets are closed, which may take a while
            if bye.reason in wire.ENDINGS:  # for viewers that come later, even while the process lingers
                runfiles.leave(self._messages.hello(), bye)
        finally:
            runfiles.remove(self._board.identity.agent)
            server.close()
            self.server = None

    def _open(self, server: transport.Server, host: str) -> None:
        requests, telemetry = server.bind(host)
        self._board.publisher.requests = f"{host}:{requests}"
        self._board.publisher.telemetry = f"{host}:{telemetry}"
        debuglog.info("publisher", "serves", f"requests on {host}:{requests}, telemetry on port {telemetry}")
        self._board.wakeups.registrar.set()

    def _serve(self, server: transport.Server) -> None:
        self._board.publisher.is_placed = self._bind != "auto"
        self._pulse.due = time.monotonic()
        duties = (
            Duty(self._place),
            Duty(self._refresh_hello, lambda: HELLO_EVERY_S),
            Duty(self._introduce_peers),
            Duty(self._listen),
            Duty(self._send_waiting),
            Duty(self._watch_for_stalls),
            Duty(self._report_exceptions),
            Duty(self._drop_unheard_capture),
            Duty(self._advance_pulse),
            self._pulse,
            Duty(self._record_state),
            Duty(self._note_dropped, self._interval),
            self._greeting,
        )
        while not self._board.stopping:
            for duty in duties:
                duty.do_if_due(server)

    def _interval(self) -> float:
        return self._board.requests.interval

    def _listen(self, server: transport.Server) -> None:
        """Wait for viewers, requests, messages or the time of the next duty, and answer."""
        pulse_due = self._pulse.due if self._board.is_watched else math.inf
        now = time.monotonic()
        due = min(pulse_due, self._greeting.due, now + IDLE_TURN)
        # Rounded up: in the last fraction of a millisecond the loop would run without a pause.
        came, requests = server.poll(math.ceil(max(0.0, due - now) * 1000))
        self._board.wakeups.publisher.clear()
        self._welcome(server, came)
        self._reply_to_all(server, requests)

    def _send_waiting(self, server: transport.Server) -> None:
        while (message := self._board.outbox.take()) is not None:
            self._send(server, message)

    def _watch_for_stalls(self, server: transport.Server) -> None:
        if (stacks := self._stalls.check_progress(time.monotonic())) is not None:
            self._send(server, stacks)

    def _report_exceptions(self, server: transport.Server) -> None:
        for event in self._stalls.caught.events():
            self._send(server, event)

    def _drop_unheard_capture(self, _server: transport.Server) -> None:
        if self._board.capture.forget_if_unheard(time.monotonic()):
            self._board.wakeups.windows.set()

    def _advance_pulse(self, _server: transport.Server) -> None:
        """Let an early pulse restart the interval: the next may be far ahead if the interval was longer."""
        if self._board.pulse_now:
            self._board.pulse_now = False
            self._pulse.due = time.monotonic()

    def _send_pulse(self, server: transport.Server) -> None:
        if self._board.is_watched:
            self._send(server, self._messages.pulse(self._oversized))

    def _record_state(self, _server: transport.Server) -> None:
        if self.black_box is not None and self.black_box.wants_keyframe:
            self.black_box.take_state(self._state_aside())

    def _note_dropped(self, server: transport.Server) -> None:
        self._changes.note_dropped(self._board.outbox.dropped, server.missed)

    def _place(self, server: transport.Server) -> None:
        """Serve where other hosts find this one, once the topology says where they are."""
        board = self._board
        if not board.publisher.is_placed and board.sampler.topology is not None:
            self._widen(server)
            board.publisher.is_placed = True
            board.wakeups.registrar.set()

    def _widen(self, server: transport.Server) -> None:
        """In a run that spans hosts, serve on the interface that leads to the other hosts."""
        topology = self._board.sampler.topology
        wider = addresses.address_towards(topology.coordinator if topology else None)
        if wider is None:
            return
        try:
            self._open(server, wider)
        except Exception as error:  # viewers on this machine are still served
            debuglog.warning("publisher", f"cannot serve on {wider}", error=error)
            self._board.switch_off("network", error)

    def _welcome(self, server: transport.Server, came: bool) -> None:
        before, self._board.publisher.viewers = self._board.publisher.viewers, server.viewers
        if before != server.viewers:
            debuglog.info("publisher", f"viewers: {server.viewers}", f"before: {before}")
        if came and not before:
            events = self._board.wakeups
            for each in (events.sampler, events.windows, events.hardware, events.libraries, events.activity):
                each.set()
        if came and self._greeting.due == math.inf:
            self._greeting.due = time.monotonic() + (GREETING_INTERVAL if before else 0)

    def _greet(self, server: transport.Server) -> None:
        self._refresh_hello(server)
        for number, frame in enumerate(self._last.frames(steady()), start=1):
            self._publish(server, frame.kind, frame.raw)
            if not number % AT_ONCE:
                time.sleep(0.001)  # many messages at once would overflow a viewer's short queue

    def _state_aside(self) -> list[tuple[str, bytes]]:
        """Return the full state for one recipient.

        The others do not receive the counters that changed, so the next pulse lists all of them.
        """
        state = [(frame.kind, frame.raw) for frame in self._last.frames(steady())]
        self._messages.forget_launches()
        return state

    # What is made for each new viewer, because the board has it; all other last frames are stored

    def _census(self) -> Iterator[wire.Frame]:
        if self._board.sampler.arrays is not None:
            yield self._frame("arrays", wire.encode(self._board.sampler.arrays))

    def _inventories(self) -> Iterator[wire.Frame]:
        inventories = fitting.most_important(self._board.programs.inventories, MOST_INVENTORY_BYTES)
        return (self._frame("inventory", payload) for payload in inventories)

    def _stacks_if_still(self) -> Iterator[wire.Frame]:
        if self._stalls.is_still and (stacks := self._stalls.stacks()) is not None:
            yield self._frame("stacks", wire.encode(stacks))

    def _ledger(self) -> Iterator[wire.Frame]:
        if (latest := self._messages.ledger()) is not None:
            yield self._frame("ledger", wire.encode(latest))

    def _whole_pulse(self) -> Iterator[wire.Frame]:
        self._messages.forget_launches()
        yield self._frame("pulse", wire.encode(self._messages.pulse(self._oversized)))

    def _frame(self, kind: str, payload: bytes) -> wire.Frame:
        return wire.Frame(steady(), self._board.identity.agent, kind, wire.LOCAL_SEQUENCE, payload)

    def _refresh_hello(self, server: transport.Server) -> None:
        """Send the hello and write the run file, if the hello has changed."""
        hello = self._messages.hello()
        payload = wire.encode(hello)
        if payload == self._hello:
            return
        self._hello = payload
        self._changes.note_sources(hello.sources)
        if why_not := runfiles.write(hello):
            self._board.sources["run file"] = f"off: {why_not}"
        self._send_payload(server, "hello", payload)

    def _introduce_peers(self, server: transport.Server) -> None:
        """Send the roster when others of the family have come or gone."""
        if self._board.registrar.family_peers is not self._family_peers:
            self._family_peers = self._board.registrar.family_peers
            self._send(server, self._messages.roster())

    def _reply_to_all(self, server: transport.Server, requests: list[transport.ReceivedRequest]) -> None:
        """Answer, then rest, so that endless requests use only a fixed share of the time."""
        began = time.thread_time()
        for received in requests:
            self._reply_to(server, received)
        if requests:
            server.rest((time.thread_time() - began) * REST_AFTER_ANSWERS)

    def _reply_to(self, server: transport.Server, received: transport.ReceivedRequest) -> None:
        try:
            request: wire.Request = wire.decode_as(wire.Request, received.raw)
        except wire.Unreadable as error:
            debuglog.warning("publisher", "a request cannot be read", error)
            server.reply(received.sender, [wire.encode(wire.Reply("", f"unreadable request: {error}"))])
            return
        reply, messages = self._answers.answer_to(request, self._state_aside, is_owner=received.is_owner)
        parts = [wire.encode(reply)]
        for kind, payload in messages:
            parts += wire.pack(kind, self._header(kind, advance=False), payload)
        server.reply(received.sender, parts)

    def _send(self, server: transport.Server, message: wire.Message) -> None:
        self._send_payload(server, wire.kind_of(message), wire.encode(message))

    def _send_payload(self, server: transport.Server, kind: str, payload: bytes) -> None:
        """Publish a message, and store it for viewers that come later."""
        self._last.take(self._frame(kind, payload))
        self._publish(server, kind, payload)

    def _publish(self, server: transport.Server, kind: str, payload: bytes) -> None:
        """Send a message to all viewers, and to the black box."""
        if self.black_box is not None:
            self.black_box.take(kind, self._sequence.get(kind, 0) + 1, payload)
        if not self._board.publisher.viewers:
            return
        if len(payload) > wire.MAX_TELEMETRY:
            self._oversized += 1
            debuglog.warning("publisher", f"dropped a message {kind!r}", f"{len(payload)} bytes are too many")
        else:
            server.publish(wire.pack(kind, self._header(kind, advance=True), payload))

    def _header(self, kind: str, *, advance: bool) -> wire.Header:
        number = self._sequence.get(kind, 0) + (1 if advance else 0)
        self._sequence[kind] = number
        return wire.Header(wire.VERSION, self._board.identity.agent, number)
