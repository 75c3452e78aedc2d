"""The facts of a run at a moment that can be compared, and the time of its steps by part."""

from __future__ import annotations

from collections import Counter
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING

from jaxtop.base import names
from jaxtop.features.ledger.compare import BYTES, FINGERPRINT, LAUNCHES, Kind
from jaxtop.features.ledger.compare_steps import NOT_OF_STEPS
from jaxtop.model import RULES_BY_NAME, array_views, mesh_views, program_views, reported_findings
from jaxtop.model.host import run_of
from jaxtop.model.hosts import runs
from jaxtop.model.programs.rates import program_of
from jaxtop.model.shares import NAMES, shares_of
from jaxtop.model.wall_time.step_parts import run_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jaxtop import wire
    from jaxtop.features.ledger.compare import Facts, Value
    from jaxtop.features.ledger.compare_steps import ProcessSteps
    from jaxtop.features.ledger.model import ProcessLedger
    from jaxtop.model import Cluster, Finding, Host, ProgramView, Run

# Findings that say that a process is late.
OF_LATE = ("straggler", "pauses")
# A finding counts if it was reported at this many of the moments, and at this share of them.
SEEN_TIMES, SEEN_SHARE = 2, 0.15
# The first parts, this many, are time in programs: from this much on, in thousandths, there is some.
IN_PROGRAMS, MIN_IN_PROGRAMS = 3, 20
# Arrays of these roles are there in every step: one that only one run has is a difference.
LASTING = ("parameters", "optimizer")


def run_in(cluster: Cluster, now: float, made_steps: Iterable[str]) -> Run | None:
    """Return the run of most of the processes that made steps, or of several the one that was heard last."""
    counts = Counter(run_of(host) for agent in made_steps if (host := cluster.hosts.get(agent)) is not None)

    def order(run: Run) -> tuple[int, float]:
        return counts[run.id], max((view.host.pulse_at or 0.0 for view in run.hosts), default=0.0)

    return max((run for run in runs(cluster, now) if counts[run.id]), key=order, default=None)


def facts_of(
    cluster: Cluster, now: float, run: Run, steps: Mapping[str, ProcessSteps], seen: FindingsSeen
) -> tuple[Facts, frozenset[Kind]]:
    """Return the facts of a run, and the kinds that are known completely."""
    hosts = [view.host for view in run.hosts]
    found: Facts = {}
    found.update(_machines(hosts))
    found.update(_flags(hosts))
    found.update(_versions(hosts))
    found.update(_meshes(cluster, run))
    found.update(_programs(cluster, now, run, steps))
    found.update(_arrays(cluster, run))
    found.update(seen.findings_of(run.id))
    has_flags = any(host.hello is not None and host.hello.flags is not None for host in hosts)
    knows = {
        Kind.DEVICES: True,
        Kind.VERSION: True,
        Kind.FLAG: has_flags,
        Kind.MESH: any(host.arrays.at_ms for host in hosts),
        Kind.ARRAY: any(host.arrays.at_ms for host in hosts),
        Kind.PROGRAM: any(host.programs.at_ms for host in hosts),
        Kind.LATE: True,
        Kind.FINDING: True,
    }
    return found, frozenset(kind for kind, is_known in knows.items() if is_known)


def machines_of_ledgers(processes: Sequence[ProcessLedger]) -> Facts:
    """Return the counts of processes and devices, which are all that ledgers know of machines."""
    return {
        (Kind.DEVICES, "processes"): {"": len(processes)},
        (Kind.DEVICES, "devices"): {"": sum(each.devices for each in processes)},
        (Kind.DEVICES, "hosts"): {"": len({each.hostname for each in processes})},
    }


def _machines(hosts: Sequence[Host]) -> Facts:
    kinds = Counter(device.kind for host in hosts for device in host.devices)
    return {
        (Kind.DEVICES, "processes"): {"": len(hosts)},
        (Kind.DEVICES, "devices"): {"": sum(kinds.values())},
        (Kind.DEVICES, "kind of device"): {"": ", ".join(sorted(kinds))},
        (Kind.DEVICES, "hosts"): {"": len({host.hostname for host in hosts})},
    }


def _flags(hosts: Sequence[Host]) -> Facts:
    """Return the flags of all processes; where they differ, each value."""
    values: dict[str, set[str]] = {}
    for host in hosts:
        for name, value in ((host.hello and host.hello.flags) or {}).items():
            values.setdefault(name, set()).add(value)
    return {(Kind.FLAG, name): {"": ", ".join(sorted(found))} for name, found in values.items()}


def _versions(hosts: Sequence[Host]) -> Facts:
    found: Facts = {}
    for name in ("jax", "jaxlib", "jaxtop", "python"):
        known = {getattr(host.hello, name) for host in hosts if host.hello is not None} - {None}
        if known:
            found[Kind.VERSION, name] = {"": ", ".join(sorted(known))}
    return found


def _meshes(cluster: Cluster, run: Run) -> Facts:
    """Return the meshes of the arrays that stay; without such arrays, all meshes."""
    of_arrays = {
        view.mesh.axes
        for view in array_views(cluster)
        if view.run == run.id and view.role in LASTING and view.mesh is not None
    }
    found = of_arrays or {view.axes for view in mesh_views(cluster) if view.run == run.id}
    return {(Kind.MESH, " × ".join(f"{name} {size}" for name, size in axes)): {} for axes in found}


def _programs(cluster: Cluster, now: float, run: Run, steps: Mapping[str, ProcessSteps]) -> Facts:
    """Return the figures of the programs of the script, by name; of several of one name the one in use."""
    of_jax = {name for view in run.hosts for name in view.host.programs.of_jax}
    launches: dict[str, float] = {}
    for each in steps.values():
        for function, number in each.launches_a_step().items():
            name = program_of(function)
            launches[name] = max(number, launches.get(name, 0.0))
    by_name: dict[str, list[ProgramView]] = {}
    for view in program_views(cluster, now):
        if view.run == run.id and view.program.name not in of_jax:
            by_name.setdefault(view.program.name, []).append(view)
    return {
        (Kind.PROGRAM, names.function_of(name)): _figures(views, launches.get(name))
        for name, views in by_name.items()
    }


def _figures(views: Sequence[ProgramView], launches: float | None) -> dict[str, Value]:
    used = max(views, key=lambda each: (each.launches_per_second or 0.0, each.needs_bytes or 0))
    program: wire.Program = used.program
    figures: dict[str, Value | None] = {
        FINGERPRINT: program.fingerprint,
        "variants": len(views),
        "flops": None if program.flops_at_least else program.flops,
        "argument bytes": program.argument_bytes,
        "temporary bytes": program.temp_bytes,
        LAUNCHES: launches,
    }
    return {name: value for name, value in figures.items() if value is not None}


def _arrays(cluster: Cluster, run: Run) -> Facts:
    """Return how the named arrays are sharded."""
    found: Facts = {}
    for view in array_views(cluster):  # the largest first
        key = Kind.ARRAY, view.name or ""
        if view.run == run.id and view.name and view.role in LASTING and view.groups == 1:
            found.setdefault(
                key,
                {
                    "shape": f"{view.dtype}[{','.join(map(str, view.shape))}]",
                    "sharding": view.sharding,
                    BYTES: view.bytes_per_device // max(1, view.count),
                },
            )
    return found


class FindingsSeen:
    """What was reported at several moments. A finding counts if it was there at enough of them."""

    def __init__(self) -> None:
        self._moments = 0
        self._times: Counter[tuple[str, Kind, str]] = Counter()
        self._texts: dict[tuple[str, Kind, str], str] = {}

    def add_moment(self, cluster: Cluster) -> None:
        self._moments += 1
        found = {_key(cluster, each): each.text for each in reported_findings(cluster)}
        self._times.update(found.keys())
        self._texts.update(found)

    def ever(self, run: str) -> frozenset[tuple[Kind, str]]:
        """Return what was reported of a run at any of the moments."""
        return frozenset((kind, name) for its_run, kind, name in self._times if its_run == run)

    def findings_of(self, run: str) -> Facts:
        """Return the findings of a run, those of late processes by the process."""
        return {
            (kind, name): {"": self._texts[its_run, kind, name]}
            for (its_run, kind, name), times in self._times.items()
            if its_run == run and times >= max(SEEN_TIMES, SEEN_SHARE * self._moments)
        }


def _key(cluster: Cluster, finding: Finding) -> tuple[str, Kind, str]:
    host, title = cluster.hosts.get(finding.subject.agent), RULES_BY_NAME[finding.rule].title
    if finding.rule in OF_LATE and host is not None and (host.process_count or 1) > 1:
        return finding.run, Kind.LATE, f"{title}: {host.number}"
    return finding.run, Kind.FINDING, title


def parts_of(cluster: Cluster, now: float, run: Run, since: float, usual_s: float) -> dict[str, float]:
    """Return how many seconds of a step each part takes, by the means of the samples since a time.

    Samples with hardly any time in programs are from before the first window, where there are others.
    """
    past = cluster.past_steps.get(run.id)
    sampled = [] if past is None else zip(past.times(), past.samples, strict=True)
    known = [each.parts for at, each in sampled if at >= since and each.parts]
    known = [each for each in known if sum(each[:IN_PROGRAMS]) >= MIN_IN_PROGRAMS] or known
    if known:
        means = (fmean(column) / 1000 for column in zip(*known, strict=True))
        shares = [(name.replace("_", " "), share) for name, share in zip(NAMES, means, strict=True)]
    else:
        found = run_parts(cluster, now, run.id)
        shares = shares_of(None if found is None else found.parts)
    return {name: share * usual_s for name, share in shares}


def spent_of(steps: Iterable[ProcessSteps]) -> Mapping[str, float]:
    """Return how many seconds of a step the processes spent on each kind; none if their ledgers miss it."""
    return _means([spent for each in steps if (spent := each.spent_a_step())])


def spent_of_ledgers(processes: Iterable[ProcessLedger]) -> Mapping[str, float]:
    """Return how many seconds of a step processes spent on each kind, by their sums."""
    return _means(
        [
            {kind: time / each.steps for kind, time in each.spent.items() if kind not in NOT_OF_STEPS}
            for each in processes
            if each.steps
        ]
    )


def _means(listed: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
    kinds = dict.fromkeys(kind for each in listed for kind in each)
    if not listed:
        return MappingProxyType({})
    return {kind: fmean(each.get(kind, 0.0) for each in listed) for kind in kinds}
