"""Machines that keep a process from running: limits of containers, other processes, memory, disks."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from jaxtop.model.figures import FIGURES
from jaxtop.model.finding import Evidence, Finding, FindingCost, Proof, Severity, Subject
from jaxtop.model.findings.rule import Rule, Unmeasured
from jaxtop.model.naming.sentences import host_names, several
from jaxtop.model.series import thinned
from jaxtop.model.tuning import Number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtop.model.figure_type import Figure
    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.host import Host
    from jaxtop.wire import HostSample

HELD_BACK, CPU_WAITS, MEMORY_WAITS, DISK_WAITS = (
    Number("share", share, "reported from this share of the time on") for share in (0.05, 0.5, 0.1, 0.3)
)
HELD_BACK_WARNING = Number("warning_share", 0.2, "a warning from this share of the time on")
# The share of its CPUs that a busy machine uses.
MACHINE_BUSY = 0.9
# The share of the CPUs that other processes use on a machine that is busy with others.
OTHERS_SHARE = 0.25
# The points of its past over which the CPU of a process is averaged.
AVERAGED = 6
# The processes of a machine whose past is read.
MAX_READ = 8
# The least share of the CPU that a process loses to others.
MIN_LOST = 0.05
# From this share of a step on, devices are idle meanwhile.
IDLE_SHARE = 0.1
# A process that moves fewer bytes a second does not wait for disks.
OWN_TRAFFIC = 64 << 10
_KERNEL = "the kernel's pressure and control group files"


def _measured(facts: RunFacts, figure: Figure) -> list[tuple[float, Host]]:
    """Return the hosts that report a figure, with its values."""
    values = [
        (value, view.current)
        for view in facts.reporting
        if (value := figure.read(view.current.pulse, 0)) is not None
    ]
    if not values:
        raise Unmeasured(f"the kernel of no host reports {figure.title}")
    return values


def _reaching(facts: RunFacts, figure: Figure, least: Number) -> list[tuple[float, Host]]:
    return [each for each in _measured(facts, figure) if each[0] >= facts.number(least)]


def _finding(
    facts: RunFacts,
    figure: Figure,
    found: list[tuple[float, Host]],
    severity: Severity,
    text: str,
    *,
    lost: float | None = None,
) -> Finding:
    """Return one finding for these hosts, with the largest of their values; `lost` is its part of a step."""
    value = max(each for each, _ in found)
    hosts = [each for _, each in found]
    # Hosts of one machine have about the same value: the subject is one that is late, or else the first.
    host = next((each for each in hosts if each.agent in facts.stragglers), hosts[0])
    is_cause = facts.has_all_stragglers({each.agent for each in hosts})
    if is_cause and severity is Severity.INFO:
        severity = Severity.WARNING
    step_ms = facts.step_ms
    return Finding(
        severity,
        0.8,
        text.format(who=host_names(hosts), share=f"{value:.0%}"),
        Subject.of(host),
        cost=FindingCost(None if lost is None or step_ms is None else lost * step_ms, lost),
        evidence=(
            Evidence(figure.title, value, "ratio", _KERNEL, host.pulse_at),
            Evidence(several(hosts), len(hosts), source=_KERNEL, at=host.pulse_at),
        ),
        proof=Proof("hosts", row=host.agent, column=figure.name),
        explains=(*_EXPLAINS, "straggler") if is_cause else _EXPLAINS,
    )


def _held_back(facts: RunFacts) -> Iterator[Finding]:
    figure = FIGURES["held_back"]
    if found := _reaching(facts, figure, HELD_BACK):
        # Devices that are CPUs use up a container's share as a matter of course.
        is_much = max(value for value, _ in found) >= facts.number(HELD_BACK_WARNING)
        severity = Severity.WARNING if is_much and not facts.is_on_cpu else Severity.INFO
        text = "the kernel keeps {who} from running for {share} of the time: "
        text += "its container has used its share of CPU"
        yield _finding(facts, figure, found, severity, text)


def _cpu_contention(facts: RunFacts) -> Iterator[Finding]:
    figure, least = FIGURES["cpu_pressure"], facts.number(CPU_WAITS)
    machines: dict[tuple[str, ...], list[tuple[float, Host]]] = {}
    for each in _measured(facts, figure):
        machines.setdefault(_machine(each[1]), []).append(each)
    busy = [each for each in machines.values() if fmean(value for value, _ in each) >= least]
    others = [
        (share, each)
        for each in busy
        if (share := _cores_used_by_others([host for _, host in each])) is not None
    ]
    if not others:
        return
    if facts.is_on_cpu:
        share, worst = max(others, key=lambda each: each[0])
        lost = _lost_cpu(facts, [host for _, host in worst])
        lost = None if lost is None else min(lost, share, *_busy_at_most(facts, worst))
    else:  # other devices wait only for the script
        lost = max((gap.delayed for gap in facts.gaps), default=None)
    found = [host for _, hosts in others for host in hosts]
    text = "other processes use the CPU of {who}: something waits for a core for {share} of the time"
    yield _finding(facts, figure, found, Severity.INFO, text, lost=lost)


def _busy_at_most(facts: RunFacts, worst: Sequence[tuple[float, Host]]) -> list[float]:
    """Return the share of the time in which a core may be wanted: that without the scripts' own gaps."""
    agents = {host.agent for _, host in worst}
    gaps = [gap.share for gap in facts.gaps if gap.host.agent in agents]
    return [max(0.0, 1 - min(gaps))] if gaps else []


def _machine(host: Host) -> tuple[str, ...]:
    """Return what tells machines apart: the boot, and the container if that has limits of its own."""
    hello = host.hello
    if hello is None or not hello.boot:
        return (host.agent,)
    return hello.boot, hello.pid_namespace if host.pulse.host.is_container else ""


def _cores_used_by_others(hosts: Sequence[Host]) -> float | None:
    """Return the share of a machine's cores that others than these processes use; None if it does not matter.

    It matters only if all cores are busy, and others use many of them.
    """
    samples = [host.pulse.host for host in hosts]
    machine = [each.machine_cpu_permille for each in samples if each.machine_cpu_permille is not None]
    own = [each.process_cpu_permille for each in samples if each.process_cpu_permille is not None]
    cores = max(each.cores_milli or 0 for each in samples)
    if not machine or len(own) < len(samples) or not cores or fmean(machine) < MACHINE_BUSY * 1000:
        return None
    share = fmean(machine) / 1000 - sum(own) / cores
    return share if share >= OTHERS_SHARE else None


def _lost_cpu(facts: RunFacts, hosts: Sequence[Host]) -> float | None:
    """Return by which share these processes use less CPU than at their best of the last two minutes.

    Only the time since they began to make steps counts: compiling takes more. None if the share is small:
    then they never had more, or they need no more.
    """
    now = best = 0.0
    for host in hosts[:MAX_READ]:
        cpu, steps = (
            [value for _, value in thinned(facts.cluster, host.agent, FIGURES[name], 10 * AVERAGED)]
            for name in ("process_cpu_cores", "mean_ms")
        )
        values = [
            used for used, step in zip(cpu, steps, strict=True) if used is not None and step is not None
        ]
        if len(values) < 2 * AVERAGED:
            return None
        means = [fmean(values[i : i + AVERAGED]) for i in range(len(values) - AVERAGED + 1)]
        now, best = now + means[-1], best + max(means)
    lost = 1 - now / best if best else 0.0
    return lost if lost >= MIN_LOST else None


def _swapping(facts: RunFacts) -> Iterator[Finding]:
    figure = FIGURES["memory_pressure"]
    if found := _reaching(facts, figure, MEMORY_WAITS):
        text = "something on {who} stands still for {share} of the time while the kernel looks for memory"
        yield _finding(facts, figure, found, Severity.WARNING, text)


def _disk_waits(facts: RunFacts) -> Iterator[Finding]:
    figure = FIGURES["io_pressure"]
    if found := _reaching(facts, figure, DISK_WAITS):
        # Reads ahead and asynchronous checkpoints may wait for disks without holding up a step.
        # Waits of other processes of the machine hold up none.
        gaps = [gap for gap in facts.gaps if gap.share >= IDLE_SHARE and _uses_disks(gap.host.pulse.host)]
        text = "something on {who} waits for disks for {share} of the time"
        yield _finding(facts, figure, found, Severity.WARNING if gaps else Severity.INFO, text)


def _uses_disks(sample: HostSample) -> bool:
    """Return whether a process itself reads or writes; where that is not known, it may."""
    traffic = sample.process_read_bytes_per_s, sample.process_written_bytes_per_s
    return None in traffic or sum(each or 0 for each in traffic) >= OWN_TRAFFIC


_EXPLAINS = ("slower_than_before",)

RULES = (
    Rule(
        name="held_back",
        title="Held back",
        threshold="the kernel keeps a container from running for 5 % of the time; a warning from 20 % on, "
        "if its devices are no CPUs",
        rationale="While a container is held back, its threads stand still, and the devices run out of "
        "launches.",
        source="the CPU statistics of the control group",
        advice="Raise the CPU limit of the container, or use fewer threads for input.",
        check=_held_back,
        holds_for=10.0,
        stays_for=20.0,
        explains=_EXPLAINS,
        numbers=(HELD_BACK, HELD_BACK_WARNING),
    ),
    Rule(
        name="cpu_contention",
        title="CPU in use by others",
        threshold="half of the time something waits for a core, all cores are busy, and 25 % of them with "
        "other processes than the run's; a warning if the host is also late",
        rationale="The script launches late, and input is prepared late.",
        source="CPU pressure and usage, from the kernel",
        advice="Find the other processes on that host (top), and move or stop them.",
        check=_cpu_contention,
        stays_for=20.0,
        explains=_EXPLAINS,
        numbers=(CPU_WAITS,),
    ),
    Rule(
        name="memory_pressure",
        title="Short of memory",
        threshold="10 % of the time something waits for memory",
        rationale="The kernel reads pages again that it had dropped, or swaps: everything stands still "
        "meanwhile.",
        source="memory pressure, from the kernel",
        advice="Use less memory on that host: fewer loader processes, smaller caches; or give it more.",
        check=_swapping,
        holds_for=6.0,
        stays_for=20.0,
        explains=("disk_waits", *_EXPLAINS),
        numbers=(MEMORY_WAITS,),
    ),
    Rule(
        name="disk_waits",
        title="Waits for disks",
        threshold="30 % of the time something waits for disks; a warning if devices are idle meanwhile, and "
        "the process itself reads or writes",
        rationale="Input and checkpoints are late.",
        source="I/O pressure, from the kernel",
        advice="Read ahead, keep the data on a faster disk, or save less often.",
        check=_disk_waits,
        holds_for=10.0,
        stays_for=20.0,
        explains=_EXPLAINS,
        numbers=(DISK_WAITS,),
    ),
)
