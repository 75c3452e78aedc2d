"""Builds the messages that describe the state of the agent's process from the board."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from jaxtop import wire
from jaxtop.base.clock import now_ms
from jaxtop_agent import jaxprivate
from jaxtop_agent.core.threads import cpu_clock, cpu_seconds
from jaxtop_agent.hardware.worker import SOURCE as HARDWARE
from jaxtop_agent.service.flags import flags
from jaxtop_agent.stalls.uncaught_exception import exit_status, uncaught

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jaxtop_agent.core.board import Board
    from jaxtop_agent.hooks.jax import Hooks
    from jaxtop_agent.stalls.watch import Stalls
    from jaxtop_agent.steps.progress import Progress

# A comparison of clocks with a larger error is not sent, in seconds.
COARSEST_CLOCK = 0.25
LAST_LEDGER_WITHIN_S = 0.5
# For how long a driver has not answered. The steps are coarse because each new text causes a new hello.
DRIVER_UNANSWERED = (
    (3600, "an hour"),
    (1800, "half an hour"),
    (600, "10 min"),
    (300, "5 min"),
    (60, "1 min"),
    (30, "30 s"),
    (10, "10 s"),
)


class Messages:
    """Builds the messages; used on the publisher's thread only."""

    def __init__(
        self,
        board: Board,
        hooks: Hooks,
        progress: Progress,
        own_threads: Callable[[], dict[int, str]],
        stalls: Stalls,
    ) -> None:
        self._board = board
        self._hooks = hooks
        self._progress = progress
        self._own_threads = own_threads
        self._stalls = stalls
        self._launches: dict[str, int] = {}
        self._cpu: tuple[float, float] | None = None
        self._ppm: int | None = None
        self._began = time.monotonic()

    def forget_launches(self) -> None:
        """Make the next pulse list every launch counter again."""
        self._launches = {}

    def hello(self) -> wire.Hello:
        """Return the identity of this agent and the state of its sources."""
        board = self._board
        topology, roster = board.sampler.topology, board.registrar.roster
        jax, jaxlib = jaxprivate.versions()
        joined = (topology.process_index, topology.process_count) if topology else jaxprivate.expected()
        return msgspec.structs.replace(
            board.identity,
            telemetry=board.publisher.telemetry,
            requests=board.publisher.requests,
            interval_ms=round(board.requests.interval * 1000),
            run=roster.run if roster else None,
            process_index=joined[0],
            process_count=joined[1],
            jax=jax,
            jaxlib=jaxlib,
            platform=topology.platform if topology else None,
            devices=devices_of(board),
            sources=source_states(board, time.monotonic()),
            clock_offset_ms=_clock_offset_ms(board),
            flags=flags(),
        )

    def pulse(self, dropped: int) -> wire.Pulse:
        """Return the current figures; `dropped` is the number of messages that could not be sent."""
        board = self._board
        totals = self._hooks.launches()
        moved = {name: count for name, count in totals.items() if self._launches.get(name) != count}
        self._launches = totals
        return wire.Pulse(
            at_ms=now_ms(),
            sampled_ms=board.sampler.sampled_ms,
            memory_source=board.sampler.memory_source,
            devices=device_sample(board, time.monotonic()),
            host=board.sampler.host,
            launches=moved,
            compiling=self._hooks.compiling(),
            step=self._progress.read(),
            cost=wire.AgentCost(self._cpu_ppm(), board.outbox.dropped + dropped, board.publisher.viewers),
            stall=self._stalls.stall,
            rhythm=board.sampler.rhythm,
            counted_ms=board.sampler.counted_ms,
            lull=self._stalls.lull,
            logged=board.ledger.logged,
            served=board.served.figures,
        )

    def _cpu_ppm(self) -> int | None:
        """Return the CPU use of the agent's threads in parts per million of a core.

        It is measured over at least half an interval; over less, greeting a viewer would look expensive.
        """
        now = time.monotonic()
        if self._cpu is not None and now - self._cpu[0] < self._board.requests.interval / 2:
            return self._ppm
        used = cpu_seconds(self._own_threads())
        if self._cpu is not None:
            self._ppm = max(0, round((used - self._cpu[1]) / (now - self._cpu[0]) * 1e6))
        self._cpu = now, used
        return self._ppm

    def roster(self) -> wire.Roster:
        board = self._board
        roster = board.registrar.roster
        if roster is None:
            roster = wire.Roster(board.identity.agent, (board.peer(),), name=board.identity.name)
        kin = board.registrar.family_peers
        return msgspec.structs.replace(roster, kin=kin) if kin else roster

    def costs(self) -> wire.Costs:
        return costs(self._board.sampler.costs, self._own_threads(), time.monotonic() - self._began)

    def ledger(self) -> wire.Ledger | None:
        """Return what the process has spent its time on, with earlier points; None if that is not known."""
        found = self._board.ledger
        return None if found.latest is None else msgspec.structs.replace(found.latest, past=found.past)

    def _last_ledger(self) -> list[wire.Message]:
        """Return the last sums and curves, for which the thread of the ledger is given a moment."""
        end = time.monotonic() + LAST_LEDGER_WITHIN_S
        while not self._board.ledger.is_final and time.monotonic() < end:
            time.sleep(0.005)
        found = self._board.ledger
        return [each for each in (found.curves, found.latest) if each is not None]

    def last(self, reason: str, dropped: int) -> tuple[list[wire.Message], wire.Bye]:
        """Return the messages before the goodbye, such as exceptions not reported yet, and the goodbye."""
        has_ended, caught = reason == wire.SCRIPT_ENDED, self._stalls.caught
        error = uncaught() if has_ended else None
        if error is not None:
            error = caught.explain(error)
        before: list[wire.Message] = list(caught.events(until_ms=now_ms()))
        before += self._last_ledger()
        if error is not None:
            before.append(self.pulse(dropped))
        status = wire.STUCK_STATUS if reason == wire.STUCK else exit_status() if has_ended else None
        return before, wire.Bye(now_ms(), reason, error, status)


def device_sample(board: Board, now: float) -> wire.DeviceSample:
    """Return the allocator's figures, with those of the hardware if they are still current."""
    read, topology = board.hardware.readings, board.sampler.topology
    if now - read.at > read.valid_s or topology is None:
        return board.sampler.devices
    fitting = {
        name: column
        for name, column in read.columns.items()
        if column is not None and len(column) == len(topology.devices)
    }
    return msgspec.structs.replace(board.sampler.devices, **fitting)


def source_states(board: Board, now: float) -> dict[str, str]:
    """Return the states of the sources; if the hardware thread hangs, its state says for how long."""
    states = dict(board.sources)
    requested = board.hardware.requested_at
    unanswered_s = 0.0 if requested is None else now - requested
    for seconds, words in DRIVER_UNANSWERED:
        if unanswered_s >= seconds:
            states[HARDWARE] = f"off: the driver has not answered for {words}"
            break
    return states


def devices_of(board: Board) -> tuple[wire.Device, ...]:
    """Return the devices, with the driver's UUIDs where it provided them."""
    if board.sampler.topology is None:
        return ()
    found = board.sampler.topology.devices
    if len(board.hardware.uuids) != len(found):
        return found
    return tuple(
        msgspec.structs.replace(device, uuid=uuid)
        for device, uuid in zip(found, board.hardware.uuids, strict=True)
    )


def _clock_offset_ms(board: Board) -> int | None:
    """Return the offset in steps that are too coarse to make a new hello of each comparison."""
    error = board.registrar.clock_error
    return None if error is None or error > COARSEST_CLOCK else round(board.registrar.clock_offset * 10) * 100


def costs(collectors: Mapping[str, float], threads: Mapping[int, str], since_s: float) -> wire.Costs:
    """Return the cost of collectors from their measured seconds, and of running threads from their clocks."""
    used: dict[str, float] = {}
    for native_id, name in threads.items():
        with suppress(OSError):
            used[name] = used.get(name, 0.0) + cpu_clock(native_id)
    return wire.Costs(now_ms(), round(since_s * 1000), _microseconds(collectors), _microseconds(used))


def _microseconds(seconds: Mapping[str, float]) -> dict[str, int]:
    return {name: round(taken * 1e6) for name, taken in seconds.items()}
