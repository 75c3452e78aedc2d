"""The fold: one message changes the state of the cluster, and may be or cause events."""

from __future__ import annotations

from collections import deque
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from jaxtop import wire
from jaxtop.model.arrays.at_peak import risen, with_census
from jaxtop.model.arrays.changes import interned, since_of, since_of_changed
from jaxtop.model.host import Host, UnmetAddress, changed_ms
from jaxtop.model.liveness import was_never_reached
from jaxtop.model.naming import nouns
from jaxtop.model.past_values import BestPace, LaunchCounts, RhythmChange, StepCounts
from jaxtop.model.programs.launch_counts import launched_with
from jaxtop.model.programs.program_updates import about_programs
from jaxtop.model.series import stored
from jaxtop.model.stalls.crashes import ending
from jaxtop.model.state import HISTORY, MAX_SCALARS, PAST_ARRAYS, LoggedEvent, PulseSample, ScalarSample
from jaxtop.model.steps.losses import followed
from jaxtop.model.wall_time.time_spent import ledger_with
from jaxtop.wire import LinkState

if TYPE_CHECKING:
    from jaxtop.model.keyframe import Message
    from jaxtop.model.state import ClusterState

# Link states that mean trouble: severity, event kind and text. A return from one of them is an event, too.
_TROUBLE = {
    LinkState.CLOSED: ("critical", "died", "has died: its process ended without notice"),
    LinkState.DEAD: ("critical", "died", "has died"),
    LinkState.STOPPED: ("critical", "stopped", "is stopped: the process exists but does not run"),
    LinkState.BLOCKED: (
        "critical",
        "blocked",
        "is blocked: the process runs, but its Python does not answer",
    ),
    LinkState.UNREACHABLE: ("critical", "unreachable", "is not reachable from here"),
    LinkState.REFUSED: ("critical", "refused", "refuses this key"),
}
# So the past censuses of a host show growth over two minutes, as `HISTORY`.
PAST_ARRAYS_EVERY_MS = 8_000
# The time over which steps per second are measured: short enough to follow changes, long enough to be steady.
RATE_WINDOW_MS = 10_000
# The best step is the lowest of the longest means of stretches this long.
BEST_OVER_MS = 30_000

_MESSAGES = frozenset(wire.KINDS.values())
# The fields of a host that hold the last message of a kind.
_REPLACES: dict[type, str] = {
    wire.Compile: "compiled",
    wire.Stacks: "stacks",
    wire.Nccl: "nccl",
    wire.NcclTimes: "nccl_times",
    wire.TpuCores: "cores",
    wire.Activity: "activity",
    wire.Scalars: "scalars",
    wire.Curves: "curves",
    wire.Bye: "bye",
}


def reduce(state: ClusterState, agent: str, message: Message, at: float) -> list[LoggedEvent]:
    """Apply a message from, or about, an agent. Return its events."""
    if type(message) not in _MESSAGES:
        return []
    match message:
        case wire.Link():
            return _link(state, agent, message, at)
        case wire.Roster():
            _roster(state, message)
            return []
    before = state.hosts.get(agent) or Host(agent)
    _put(state, before, _reported(state, before.but(heard_at=at), message, at))
    return _events(before, state.hosts[agent], message, at)


def _put(state: ClusterState, before: Host, host: Host) -> None:
    state.hosts[host.agent] = host
    if host.hello is not before.hello or host.peer is not before.peer:
        nouns.place(state, before, host)


def _reported(state: ClusterState, host: Host, message: Message, at: float) -> Host:
    match message:
        case wire.Pulse():
            host = _pulse(state, host, message, at)
        case wire.Hello():
            host = _hello(state, host, message)
        case wire.Arrays() | wire.ArraysChange():
            host = _arrays(state, host, message)
        case wire.Programs() | wire.Inventory() | wire.Operations() | wire.Peak():
            host = about_programs(state, host, message)
        case wire.Ledger():
            host = host.but(ledger=ledger_with(host.ledger, message))
        case wire.Window():
            host = host.but(window=message, launches_in_windows=launched_with(host, message))
        case _ if field := _REPLACES.get(type(message)):
            host = host.but(**{field: message})
    return host


def _events(before: Host, host: Host, message: Message, at: float) -> list[LoggedEvent]:
    match message:
        case wire.Compile():
            text = f"{host.label} compiled {message.function} in {message.duration_ms / 1000:.2f} s"
            text = f"{text} again: {message.why}" if message.why else text
            return [LoggedEvent(at, "info", "compile", host.agent, text)]
        case wire.Event():
            text = f"{host.label}: {message.text}"
            return [LoggedEvent(at, message.severity, message.kind, host.agent, text)]
        case wire.Bye():
            severity = "info" if message.error is None else "critical"
            text = f"{host.label} {ending(message, host.process_count)}"
            return [LoggedEvent(at, severity, "ended", host.agent, text)]
        case wire.Hello() if (why := host.black_box_trouble) and why != before.black_box_trouble:
            return [LoggedEvent(at, "warning", "recording", host.agent, f"{host.label} {why}")]
    return []


# Rosters and links


def _roster(state: ClusterState, roster: wire.Roster) -> None:
    state.layout_changes += 1
    for peer in roster.peers:
        if peer.agent not in state.dropped.agents:
            before = state.hosts.get(peer.agent) or Host(peer.agent)
            host = before.but(
                peer=peer,
                run=roster.run or before.run,
                run_name=roster.name or before.run_name,
                process_count=roster.process_count or before.process_count,
            )
            _put(state, before, host)


def _link(state: ClusterState, agent: str, link: wire.Link, at: float) -> list[LoggedEvent]:
    if link.state is LinkState.MERGED:
        state.unmet.pop(link.endpoint, None)
    elif not agent:
        state.unmet[link.endpoint] = UnmetAddress(link.endpoint, link, at)
    else:
        before = state.hosts.get(agent) or Host(agent)
        state.hosts[agent] = host = before.but(link=link, link_at=at)
        return _link_events(before, host, at)
    return []


def _link_events(before: Host, host: Host, at: float) -> list[LoggedEvent]:
    state = host.link.state
    if host.bye is not None or (state is LinkState.CLOSED and host.hello is None):
        return []  # it ended, or it exited before this viewer met it
    earlier, trouble = _TROUBLE.get(before.link.state), _TROUBLE.get(state)
    if trouble is not None and (earlier is None or trouble[1] != earlier[1]):
        severity, kind, text = trouble
        if was_never_reached(host):
            severity = "warning"  # it may run well behind an address that only its own network can reach
        elif kind == "died" and host.is_lone_worker:
            severity, text = "warning", "has ended without notice: its parent ended it, or it was killed"
        return [LoggedEvent(at, severity, kind, host.agent, f"{before.label} {text}")]
    if state is LinkState.UP and earlier is not None and host.hello is not None:
        return [LoggedEvent(at, "info", "back", host.agent, f"{before.label} is live again")]
    return []


# What a process reports


def _hello(state: ClusterState, host: Host, hello: wire.Hello) -> Host:
    state.dropped.agents.pop(host.agent, None)
    if hello != host.hello:
        state.layout_changes += 1
    return host.but(
        hello=hello,
        run=hello.run or host.run,
        run_name=hello.name or host.run_name,
        process_count=hello.process_count or host.process_count,
    )


def _pulse(state: ClusterState, host: Host, pulse: wire.Pulse, at: float) -> Host:
    launches = host.launches
    samples = state.past_pulses.setdefault(host.agent, deque(maxlen=HISTORY))
    counted = samples[-1].launches if samples else 0
    if pulse.launches:
        # A function's first reported count covers launches of an unknown time, so it adds nothing.
        counted += sum(count - launches.get(name, count) for name, count in pulse.launches.items())
        launches = MappingProxyType({**launches, **pulse.launches})
    used_bytes = pulse.devices.used_bytes
    if samples and samples[-1].used_bytes == used_bytes:
        used_bytes = samples[-1].used_bytes  # equal samples share one tuple
    samples.append(PulseSample(at, used_bytes, counted))
    past = state.past_figures.setdefault(host.agent, deque(maxlen=HISTORY))
    figures = stored(pulse, has_devices=state.is_drawn)
    past.append((at, past[-1][1] if past and past[-1][1] == figures else figures))
    _note_scalars(state, host, pulse)
    return host.but(
        pulse=pulse,
        pulse_at=at,
        launches=launches,
        launches_since=at if host.launches_since is None and pulse.launches else host.launches_since,
        past_launches=_past_launches(
            () if changed_ms(pulse) != changed_ms(host.pulse) else host.past_launches,
            LaunchCounts(pulse.at_ms, launches),
        ),
        steps=_steps(host.steps, pulse),
        losses=followed(host.losses, host.pulse, pulse),
        best=_best(host.best, pulse),
        rises=risen(host, pulse),
        rhythm_change=_rhythm_change(host.rhythm_change, pulse, at),
    )


def _note_scalars(state: ClusterState, host: Host, pulse: wire.Pulse) -> None:
    """Note the scalars of a pulse that came after the curves of its agent."""
    curves = host.curves
    if not curves.curves or pulse.at_ms < curves.at_ms:
        return
    known = pulse.values
    values = tuple(known.get(each.name) for each in curves.curves)
    tail = state.scalar_tails.setdefault(host.agent, deque(maxlen=MAX_SCALARS))
    if tail and tail[0].at_ms < curves.at_ms:
        tail.clear()
    if not tail or tail[-1].values != values:
        tail.append(ScalarSample(pulse.at_ms, values))


def _rhythm_change(before: RhythmChange, pulse: wire.Pulse, at: float) -> RhythmChange:
    """Return the last change of the rhythm after a pulse; a pulse without a rhythm leaves it as it is."""
    since_ms = changed_ms(pulse)
    return before if since_ms in (0, before.since_ms) else RhythmChange(since_ms, at)


def _best(before: BestPace | None, pulse: wire.Pulse) -> BestPace | None:
    """Return the best time of a step after a pulse. It starts anew when the step is another one."""
    rhythm = pulse.rhythm
    if rhythm is None or rhythm.mean_us is None:
        return before
    of_step, mean = (rhythm.functions, rhythm.flops), rhythm.mean_us
    if before is None or of_step != (before.functions, before.flops) or pulse.at_ms < before.since_ms:
        return BestPace(*of_step, pulse.at_ms, mean)
    longest = max(before.longest_us, mean)
    if pulse.at_ms - before.since_ms < BEST_OVER_MS:
        return before if longest == before.longest_us else msgspec.structs.replace(before, longest_us=longest)
    best = longest if before.best_us is None else min(before.best_us, longest)
    return BestPace(*of_step, pulse.at_ms, mean, best)


def _past_launches(past: tuple[LaunchCounts, ...], now: LaunchCounts) -> tuple[LaunchCounts, ...]:
    """Return two earlier moments, of which the older is about `RATE_WINDOW_MS` ago."""
    if past and 0 <= now.at_ms - past[-1].at_ms < RATE_WINDOW_MS:
        return past
    return *past[-1:], now


def _steps(rate: StepCounts | None, pulse: wire.Pulse) -> StepCounts | None:
    if pulse.step is None:
        return rate
    at, calls = pulse.at_ms, pulse.step.calls
    if rate is None or calls < rate.last or at < rate.last_ms:
        return StepCounts(at, calls, at, calls)
    if at - rate.first_ms > 2 * RATE_WINDOW_MS:
        return StepCounts(rate.last_ms, rate.last, at, calls)
    return msgspec.structs.replace(rate, last_ms=at, last=calls)


# Arrays


def _arrays(state: ClusterState, host: Host, message: wire.Arrays | wire.ArraysChange) -> Host:
    if isinstance(message, wire.Arrays):
        if message.serial == host.arrays.serial and message.number < host.arrays.number:
            return host  # a newer change has already arrived
        arrays = msgspec.structs.replace(message, meshes=interned(state, message.meshes))
        since = since_of(host, arrays)
    else:
        if message.serial != host.arrays.serial or message.number != host.arrays.number + 1:
            return host  # it is already applied, or an earlier change was lost and the whole census follows
        arrays = wire.changed_census(host.arrays, message, interned(state, message.meshes))
        since = since_of_changed(host, message, len(arrays.counts))
    past = state.past_arrays.setdefault(host.agent, deque(maxlen=PAST_ARRAYS))
    if past and arrays.at_ms < past[-1].at_ms:
        past.clear()  # the agent's clock was set back, so the time between the two is unknown
    if not past or arrays.at_ms - past[-1].at_ms >= PAST_ARRAYS_EVERY_MS:
        past.append(arrays)
    host = host.but(arrays=arrays, arrays_since=since)
    rises = with_census(host, host.rises, arrays.at_ms)
    return host if rises is host.rises else host.but(rises=rises)
