"""The fold applies messages to the model. No other code changes the model."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from jaxtop import wire
from jaxtop.model import exited, keyframe, rates
from jaxtop.model.collectives import instances, layout, words
from jaxtop.model.derived import Derived
from jaxtop.model.host import Host, Launches, Rate, Unmet
from jaxtop.model.liveness import was_never_reached
from jaxtop.model.series import kept
from jaxtop.model.stalls.diagnosis import diagnose, goes_on
from jaxtop.model.stalls.episodes import LOOK_EVERY, Episode
from jaxtop.model.stalls.lulls import still_of
from jaxtop.model.views import run_of

if TYPE_CHECKING:
    from collections.abc import Callable

# Link states that mean trouble: severity, event kind and text. A return from one of them is an event, too.
_TROUBLE = {
    "closed": ("critical", "died", "is no longer there, and said no goodbye"),
    "dead": ("critical", "died", "has died"),
    "silent": ("critical", "stopped", "is stopped: the process exists but does not run"),
    "deaf": ("critical", "blocked", "is blocked: the process runs, its Python does not answer"),
    "unreachable": ("critical", "unreachable", "is not reachable from here"),
    "refused": ("critical", "refused", "refuses this key"),
}
MOST_EVENTS = 1000
# Samples that are kept of each host: two minutes at the default interval.
HISTORY = 120
# Past censuses that are kept of each host: enough to show growth over the same two minutes.
PAST_ARRAYS, PAST_ARRAYS_EVERY_MS = 16, 8_000
# The time over which steps per second are measured: short enough to follow changes, long enough to be steady.
RATE_WINDOW_MS = 10_000


class LoggedEvent(NamedTuple):
    """An event that a person should know, with the agent that it is about."""

    at: float
    severity: str
    kind: str
    agent: str
    text: str


class Sample(NamedTuple):
    """The entry of one pulse in a host's history; `launches` counts from the start of the history."""

    at: float
    used_bytes: tuple[int | None, ...] | None
    launches: int


@dataclass
class Cluster:
    """The model: everything that a viewer knows. Read it through the views of `jaxtop.model`."""

    hosts: dict[str, Host] = field(default_factory=dict)
    unmet: dict[str, Unmet] = field(default_factory=dict)
    events: deque[LoggedEvent] = field(default_factory=lambda: deque(maxlen=MOST_EVENTS))
    rejected: Counter[str] = field(default_factory=Counter)
    history: dict[str, deque[Sample]] = field(default_factory=dict)
    # All figures of the same pulses, encoded. Keyframes leave them out because they would make a keyframe
    # many times as large. After a jump they start empty, so comparisons of two models ignore them.
    figures: dict[str, deque[tuple[float, bytes]]] = field(default_factory=dict, repr=False, compare=False)
    past_arrays: dict[str, deque[wire.Arrays]] = field(default_factory=dict)
    known_meshes: dict[wire.Mesh, wire.Mesh] = field(default_factory=dict, repr=False)
    joining: instances.Instances = field(default_factory=instances.Instances)
    # The runs that are stalled, and when each run was last checked for a stall.
    episodes: dict[str, Episode] = field(default_factory=dict)
    looked: dict[str, float] = field(default_factory=dict, repr=False, compare=False)
    # The exited processes that were dropped, and the last interval in which `_tidy` ran.
    dropped: exited.Dropped = field(default_factory=exited.Dropped)
    tidied: float = field(default=0.0, repr=False, compare=False)
    changes: int = 0
    # What the views derived. The fold does not use it.
    derived: Derived = field(default_factory=Derived, repr=False, compare=False)

    def feed(self, frame: wire.Frame) -> None:
        """Decode a frame and apply it. Unreadable frames are counted and skipped."""
        if frame.kind not in wire.KINDS:
            wire.tally(self.rejected, f"unknown message {frame.kind[:32]!r}")
            return
        try:
            self.apply(frame.agent, wire.decode(frame.kind, frame.raw), frame.at)
        except wire.Unreadable as error:
            wire.tally(self.rejected, f"unreadable {frame.kind}: {error}")

    def apply(self, agent: str, message: wire.Message, at: float) -> None:
        """Apply one message from, or about, an agent."""
        self.changes += 1
        if agent in self.dropped.agents and not isinstance(message, wire.Hello):
            return
        if isinstance(message, wire.Roster):
            self._roster(message)
        elif isinstance(message, wire.Link):
            self._link(agent, message, at)
        elif isinstance(message, wire.PastEvents):
            self._past_events(message)
        else:
            host = self.hosts.get(agent) or Host(agent)
            self.hosts[agent] = _FOLDS[type(message)](self, host.but(heard_at=at), message, at)
        if agent in self.hosts:
            self._follow_stalls(agent, at)
        if at // exited.LOOK_EVERY > self.tidied:
            self.tidied = at // exited.LOOK_EVERY
            self._tidy(self.tidied * exited.LOOK_EVERY)

    def _tidy(self, at: float) -> None:
        """Drop exited processes and their details when they are replaced, too many or too old."""
        self._drop(list(exited.replaced(self.hosts, at)))
        self._drop(list(exited.outlived(self.hosts, at)))
        for host in exited.faded(self.hosts, at):
            self.hosts[host.agent] = exited.without_details(host)
            self._forget_past(host.agent)

    def _drop(self, gone: list[Host]) -> None:
        """Remove these exited processes from the model and count them."""
        if not gone:
            return
        for host in gone:
            self.dropped.add(host)
            del self.hosts[host.agent]
            self._forget_past(host.agent)
        known = {run_of(host) for host in self.hosts.values()}
        self.dropped.forget_runs(known)
        self.episodes = {run: each for run, each in self.episodes.items() if run in known}
        self.looked = {run: each for run, each in self.looked.items() if run in known}
        self.joining.keep(known, self.hosts)
        meshes = [mesh for host in self.hosts.values() for mesh in host.arrays.meshes]
        meshes += [mesh for past in self.past_arrays.values() for each in past for mesh in each.meshes]
        self.known_meshes = {mesh: self.known_meshes.get(mesh, mesh) for mesh in meshes}

    def _forget_past(self, agent: str) -> None:
        for kept_of in (self.history, self.figures, self.past_arrays):
            kept_of.pop(agent, None)

    def _roster(self, roster: wire.Roster) -> None:
        self.joining.facts += 1
        for peer in roster.peers:
            if peer.agent in self.dropped.agents:
                continue
            host = self.hosts.get(peer.agent) or Host(peer.agent)
            self.hosts[peer.agent] = host.but(
                peer=peer,
                run=roster.run or host.run,
                run_name=roster.name or host.run_name,
                process_count=roster.process_count or host.process_count,
            )

    def _link(self, agent: str, link: wire.Link, at: float) -> None:
        if link.state == "merged":
            self.unmet.pop(link.endpoint, None)
        elif not agent:
            self.unmet[link.endpoint] = Unmet(link.endpoint, link, at)
        else:
            host = self.hosts.get(agent) or Host(agent)
            self._note_link(host, link, at)
            self.hosts[agent] = host.but(link=link, link_at=at)

    def _note_link(self, host: Host, link: wire.Link, at: float) -> None:
        if host.bye is not None:
            return
        if link.state == "closed" and host.hello is None:
            return  # it exited before this viewer met it
        before, now = _TROUBLE.get(host.link.state), _TROUBLE.get(link.state)
        if now is not None and (before is None or now[1] != before[1]):
            severity, kind, text = now
            if was_never_reached(host.but(link=link)):
                severity = "warning"  # it may run well behind an address that only its own network can reach
            self.events.append(LoggedEvent(at, severity, kind, host.agent, f"{host.label} {text}"))
        elif link.state == "up" and before is not None and host.hello is not None:
            self.events.append(LoggedEvent(at, "info", "back", host.agent, f"{host.label} is back"))

    def _follow_stalls(self, agent: str, at: float) -> None:
        """Report a stall of an agent's run, with the cause if it is known, and later that the run resumes."""
        host = self.hosts[agent]
        run = run_of(host)
        episode = self.episodes.get(run)
        if episode is None and still_of(host) is None:
            return
        looked_at = episode.looked_at if episode is not None else self.looked.get(run, at - LOOK_EVERY)
        if 0 <= at - looked_at < LOOK_EVERY:
            return
        self.looked[run] = at
        found = diagnose(self, run, at)
        if found is not None:
            episode = episode or Episode(at, at)
            self.episodes[run] = after = episode.looked(at, found)
            if after.told is not episode.told:
                self.events.append(LoggedEvent(at, found.severity, "stalled", found.about, found.text))
        elif episode is not None and goes_on(self, run, at):
            del self.episodes[run]
            if episode.told is not None:
                self.events.append(LoggedEvent(at, "info", "goes on", agent, episode.end(at)))

    def _hello(self, host: Host, hello: wire.Hello, at: float) -> Host:
        self.dropped.agents.pop(host.agent, None)
        if hello != host.hello:
            self.joining.facts += 1
        before = host.black_box_trouble
        found = host.but(
            hello=hello,
            run=hello.run or host.run,
            run_name=hello.name or host.run_name,
            process_count=hello.process_count or host.process_count,
        )
        if (why := found.black_box_trouble) and why != before:
            self.events.append(LoggedEvent(at, "warning", "recording", host.agent, f"{found.label} {why}"))
        return found

    def frozen(self) -> Cluster:
        """Return a copy of the current cluster. Hosts are frozen values, so only the tables are copied."""
        return replace(
            self,
            hosts=dict(self.hosts),
            unmet=dict(self.unmet),
            events=self.events.copy(),
            rejected=self.rejected.copy(),
            history={agent: samples.copy() for agent, samples in self.history.items()},
            figures={agent: past.copy() for agent, past in self.figures.items()},
            past_arrays={agent: past.copy() for agent, past in self.past_arrays.items()},
            episodes=dict(self.episodes),
            joining=self.joining.frozen(),
            dropped=self.dropped.copy(),
            derived=self.derived.copy(),
        )

    def _pulse(self, host: Host, pulse: wire.Pulse, at: float) -> Host:
        launches = host.launches
        samples = self.history.get(host.agent)
        counted = samples[-1].launches if samples else 0
        if pulse.launches:
            # A function's first reported count covers launches of an unknown time, so it adds nothing.
            counted += sum(count - launches.get(name, count) for name, count in pulse.launches.items())
            launches = MappingProxyType({**launches, **pulse.launches})
        self._remember(host.agent, Sample(at, pulse.devices.used_bytes, counted))
        self._keep(host.agent, at, kept(pulse))
        return host.but(
            pulse=pulse,
            pulse_at=at,
            launches=launches,
            launches_since=at if host.launches_since is None and pulse.launches else host.launches_since,
            past_launches=_remember_launches(host.past_launches, Launches(pulse.at_ms, launches)),
            steps=_advance(host.steps, pulse),
        )

    def _remember(self, agent: str, sample: Sample) -> None:
        samples = self.history.setdefault(agent, deque(maxlen=HISTORY))
        if samples and samples[-1].used_bytes == sample.used_bytes:
            sample = sample._replace(used_bytes=samples[-1].used_bytes)  # equal samples share one tuple
        samples.append(sample)

    def _keep(self, agent: str, at: float, figures: bytes) -> None:
        past = self.figures.setdefault(agent, deque(maxlen=HISTORY))
        past.append((at, past[-1][1] if past and past[-1][1] == figures else figures))

    def _arrays(self, host: Host, arrays: wire.Arrays, _at: float) -> Host:
        if arrays.serial == host.arrays.serial and arrays.number < host.arrays.number:
            return host  # a newer change has already arrived
        arrays = msgspec.structs.replace(arrays, meshes=self._shared(arrays.meshes))
        self._remember_arrays(host.agent, arrays)
        return host.but(arrays=arrays)

    def _arrays_change(self, host: Host, change: wire.ArraysChange, _at: float) -> Host:
        now = host.arrays
        if change.serial != now.serial or change.number != now.number + 1:
            return host  # it is already applied, or an earlier change was lost and the whole census follows
        arrays = _changed(now, change, self._shared(change.meshes))
        self._remember_arrays(host.agent, arrays)
        return host.but(arrays=arrays)

    def _shared(self, meshes: tuple[wire.Mesh, ...]) -> tuple[wire.Mesh, ...]:
        # Equal meshes share one object, because a thousand hosts report the same mesh of thousands of
        # devices.
        if meshes:
            self.joining.facts += 1
        return tuple(self.known_meshes.setdefault(mesh, mesh) for mesh in meshes)

    def _remember_arrays(self, agent: str, arrays: wire.Arrays) -> None:
        past = self.past_arrays.setdefault(agent, deque(maxlen=PAST_ARRAYS))
        if past and arrays.at_ms < past[-1].at_ms:
            past.clear()  # the agent's clock was set back, so the time between the two is unknown
        if not past or arrays.at_ms - past[-1].at_ms >= PAST_ARRAYS_EVERY_MS:
            past.append(arrays)

    def _programs(self, host: Host, programs: wire.Programs, _at: float) -> Host:
        loaded = {(each.name, each.fingerprint) for each in programs.programs}
        inventories = host.inventories
        if not programs.rest and not loaded.issuperset(inventories):
            inventories = MappingProxyType({key: inventories[key] for key in inventories if key in loaded})
            self.joining.facts += 1
        return host.but(programs=programs, inventories=inventories)

    def _inventory(self, host: Host, inventory: wire.Inventory, _at: float) -> Host:
        key = inventory.program, inventory.fingerprint
        inventory = self.joining.shared(inventory)
        return host.but(inventories=MappingProxyType({**host.inventories, key: inventory}))

    def _window(self, host: Host, window: wire.Window, at: float) -> Host:
        self.hosts[host.agent] = host = host.but(window=window, launched=rates.launched(host, window))
        changes = self.joining.take(
            host.agent,
            run_of(host),
            window,
            lambda key: layout.layouts(self).get(key),
            lambda key: layout.may_be_met(self, host, key),
        )
        for severity, agent, text in words.of_changes(changes, self):
            self.events.append(LoggedEvent(at, severity, "straggler", agent, text))
        return host

    def _past(self, host: Host, past: wire.Past, _at: float) -> Host:
        """Replace the history that the preceding messages left for a host."""
        samples = [Sample(*each) for each in keyframe.history_of(past.samples)]
        if samples:
            self.history[host.agent] = deque(samples, maxlen=HISTORY)
        return host.but(
            heard_at=past.heard_at,
            launches=MappingProxyType(past.counted) if past.counted else host.launches,
            launches_since=past.launches_since,
            past_launches=keyframe.launches_of(past.launches),
            steps=keyframe.steps_of(past.steps),
            launched=keyframe.launched_of(past.launched),
        )

    def _past_arrays(self, host: Host, past: wire.PastArrays, _at: float) -> Host:
        """Replace the remembered censuses of a host, from which growth is derived."""
        first = msgspec.structs.replace(past.first, meshes=self._shared(past.first.meshes))
        censuses = deque([first], maxlen=PAST_ARRAYS)
        for change in past.changes:
            censuses.append(_changed(censuses[-1], change, self._shared(change.meshes)))
        self.past_arrays[host.agent] = censuses
        return host

    def _past_events(self, past: wire.PastEvents) -> None:
        events = (LoggedEvent(*msgspec.structs.astuple(each)) for each in past.events)
        self.events = deque(events, maxlen=MOST_EVENTS)
        self.episodes = {each.run: keyframe.episode_of(each) for each in past.standstills}
        if past.dropped:
            self.dropped = keyframe.dropped_of(past)

    def _stacks(self, host: Host, stacks: wire.Stacks, _at: float) -> Host:
        return host.but(stacks=stacks)

    def _compile(self, host: Host, compiled: wire.Compile, at: float) -> Host:
        text = f"{host.label} compiled {compiled.function} in {compiled.duration_ms / 1000:.2f} s"
        self.events.append(LoggedEvent(at, "info", "compile", host.agent, text))
        return host

    def _event(self, host: Host, event: wire.Event, at: float) -> Host:
        self.events.append(
            LoggedEvent(at, event.severity, event.kind, host.agent, f"{host.label}: {event.text}")
        )
        return host

    def _bye(self, host: Host, bye: wire.Bye, at: float) -> Host:
        self.events.append(LoggedEvent(at, "info", "ended", host.agent, f"{host.label} ended"))
        return host.but(bye=bye)


_FOLDS: dict[type, Callable[..., Host]] = {
    wire.Hello: Cluster._hello,  # noqa: SLF001 - the class's own table of its own methods
    wire.Pulse: Cluster._pulse,  # noqa: SLF001
    wire.Arrays: Cluster._arrays,  # noqa: SLF001
    wire.ArraysChange: Cluster._arrays_change,  # noqa: SLF001
    wire.Programs: Cluster._programs,  # noqa: SLF001
    wire.Inventory: Cluster._inventory,  # noqa: SLF001
    wire.Window: Cluster._window,  # noqa: SLF001
    wire.Stacks: Cluster._stacks,  # noqa: SLF001
    wire.Compile: Cluster._compile,  # noqa: SLF001
    wire.Event: Cluster._event,  # noqa: SLF001
    wire.Bye: Cluster._bye,  # noqa: SLF001
    wire.Past: Cluster._past,  # noqa: SLF001
    wire.PastArrays: Cluster._past_arrays,  # noqa: SLF001
}


def _advance(rate: Rate | None, pulse: wire.Pulse) -> Rate | None:
    if pulse.step is None:
        return rate
    at, calls = pulse.at_ms, pulse.step.calls
    if rate is None or calls < rate.last or at < rate.last_ms:
        return Rate(at, calls, at, calls)
    if at - rate.first_ms > 2 * RATE_WINDOW_MS:
        return Rate(rate.last_ms, rate.last, at, calls)
    return replace(rate, last_ms=at, last=calls)


def _remember_launches(past: tuple[Launches, ...], now: Launches) -> tuple[Launches, ...]:
    """Return two earlier moments, of which the older is about `RATE_WINDOW_MS` ago."""
    if past and 0 <= now.at_ms - past[-1].at_ms < RATE_WINDOW_MS:
        return past
    return *past[-1:], now


def _changed(now: wire.Arrays, change: wire.ArraysChange, meshes: tuple[wire.Mesh, ...]) -> wire.Arrays:
    """Return the census after a change. Lists that did not change stay the same objects."""
    groups, counts = now.groups, list(now.counts)
    if change.groups:
        known = dict(enumerate(groups)) | dict(change.groups)
        if known.keys() != set(range(len(known))):
            raise wire.Unreadable("a change of array groups that leaves gaps")
        groups = tuple(known[i] for i in range(len(known)))
        counts += [0] * (len(groups) - len(counts))
    for i, count in change.counts:
        if not 0 <= i < len(counts):
            raise wire.Unreadable("a count of an array group that is not there")
        counts[i] = count
    arrays = wire.Arrays(
        at_ms=change.at_ms,
        serial=now.serial,
        number=change.number,
        meshes=(*now.meshes, *meshes) if meshes else now.meshes,
        shardings=(*now.shardings, *change.shardings) if change.shardings else now.shardings,
        groups=groups,
        counts=tuple(counts),
    )
    wire.check_census(arrays, change.meshes, change.shardings, [group for _, group in change.groups])
    return arrays
