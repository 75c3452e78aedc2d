"""Hosts that do not have the same programs, versions, flags or time."""

from __future__ import annotations

from statistics import median_low
from typing import TYPE_CHECKING

from jaxtop.model.finding import Evidence, Finding, Proof, Severity, Subject
from jaxtop.model.findings.rule import Rule, Unmeasured
from jaxtop.model.naming.sentences import acting, host_names, several
from jaxtop.model.programs.loaded_programs import differing, unlike
from jaxtop.model.tuning import Number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.host import Host
    from jaxtop.model.programs.loaded_programs import LoadedProgram

# The values that hosts have, the most common first, each with its hosts; and of what.
_Groups = list[tuple[str, list["Host"]]]
_Differing = list[tuple[str, _Groups]]
# Hexadecimal digits of a fingerprint that are shown.
DIGITS = 8
# Of the versions or flags that differ, this many are evidence; a flag that a host does not have is "unset".
MAX_NAMED, UNSET = 5, "unset"
# Clocks that differ by less do not confuse the order of log lines of one step.
CLOCK_SECONDS = Number("seconds", 1.0, "reported from this difference on")
_LIBRARIES = ("jax", "jaxlib")
_VERSIONS = (*_LIBRARIES, "python", "jaxtop")


def _groups(hosts: Sequence[Host], of: Callable[[Host], str | None]) -> _Groups:
    """Group hosts by a value, the most common first; hosts without it are left out."""
    found: dict[str, list[Host]] = {}
    for host in hosts:
        if (value := of(host)) is not None:
            found.setdefault(value, []).append(host)
    return sorted(found.items(), key=lambda group: -len(group[1]))


def _who_has(groups: _Groups) -> str:
    """Return a text such as "hosts 0–2 have 0.8.0, host 3 has 0.7.2"."""
    parts = [f"{acting(members, 'has', 'have')} {text}" for text, members in groups[:3]]
    return ", ".join([*parts, *([f"{len(groups) - 3} more"] if len(groups) > 3 else [])])


# Programs and versions


def _present(facts: RunFacts) -> list[Host]:
    """Return the hosts that have not exited and said who they are."""
    return [view.host for view in facts.present if view.host.hello is not None]


def _program_mismatch(facts: RunFacts) -> Iterator[Finding]:
    """Yield one finding for all programs that differ, unless the hosts' libraries differ too."""
    if len(facts.present) < 2:
        return
    found = [parts for parts in differing(facts.cluster) if parts[0].run == facts.run.id]
    hosts = _present(facts)
    if not found or _version_groups(hosts, _LIBRARIES) or _flag_groups(hosts):
        return
    parts = max(found, key=_weight)
    name = parts[0].program.name
    groups = [((each.program.fingerprint or "")[:DIGITS], each.members) for each in parts]
    others = len(found) - 1
    more = f" ({others} more program{'s' if others > 1 else ''} too)" if others else ""
    yield Finding(
        Severity.CRITICAL,
        0.9,
        f"{name} differs between {several(hosts)}{more} in its {unlike(parts)}: {_who_has(groups)}",
        Subject.of(groups[-1][1][0], program=name),
        evidence=(
            Evidence("differs in", unlike(parts), source="compiled programs", at=facts.read_time()),
            *(
                Evidence(
                    f"fingerprint on {host_names(members)}",
                    text,
                    source="compiled programs",
                    at=facts.read_time(),
                )
                for text, members in groups
            ),
            Evidence("programs that differ", len(found), source="compiled programs", at=facts.read_time()),
        ),
        proof=Proof("programs", row=name),
    )


def _weight(parts: list[LoadedProgram]) -> int:
    """Return a rank of a program that differs: the largest is the one that matters most."""
    return max(each.program.flops or 0 for each in parts)


def _version_groups(hosts: Sequence[Host], names: Sequence[str]) -> _Differing:
    """Return the versions that differ between hosts, each with the hosts of each value."""
    found = []
    for name in names:
        groups = _groups(hosts, lambda host, name=name: getattr(host.hello, name))  # type: ignore[misc]
        if len(groups) > 1:
            found.append((name, groups))
    return found


def _versions_differ(facts: RunFacts) -> Iterator[Finding]:
    """Yield one finding for all versions that differ; those of JAX matter most."""
    found = _version_groups(_present(facts), _VERSIONS)
    if found:
        more = f" ({', '.join(name for name, _ in found[1:])} too)" if len(found) > 1 else ""
        yield _difference(facts, found, more, makes_programs=found[0][0] in _LIBRARIES)


def _difference(facts: RunFacts, found: _Differing, more: str, *, makes_programs: bool) -> Finding:
    """Return the finding of versions or flags that differ, the first in full; `more` is about the others.

    Where they make programs differ, it is critical, and explains a stall.
    """
    name, groups = found[0]
    differ = makes_programs and any(parts[0].run == facts.run.id for parts in differing(facts.cluster))
    host = groups[-1][1][0]
    return Finding(
        Severity.CRITICAL if differ else Severity.WARNING if makes_programs else Severity.INFO,
        1.0,
        f"{name} is not the same on all {several(_present(facts))}{more}: {_who_has(groups)}"
        + ("; their programs differ" * differ),
        Subject.of(host),
        evidence=tuple(
            Evidence(f"{other} on {host_names(members)}", value, source="agents", at=facts.read_time())
            for other, each in found[:MAX_NAMED]
            for value, members in each
        ),
        proof=Proof("hosts", row=host.agent, column="jax" if name in _LIBRARIES else ""),
        explains=("stalled",) if differ else (),
    )


def _flag_groups(hosts: Sequence[Host]) -> _Differing:
    """Return the flags that differ between hosts that report theirs, each with the hosts of each value."""
    flags = {host.agent: host.hello.flags for host in hosts if host.hello and host.hello.flags is not None}
    reporting = [host for host in hosts if host.agent in flags]
    first = next(iter(flags.values()), {})
    if all(each == first for each in flags.values()):
        return []
    found = []
    for name in sorted({name for each in flags.values() for name in each}):
        values = {agent: each.get(name, UNSET) for agent, each in flags.items()}
        groups = _groups(reporting, lambda host, values=values: values[host.agent])  # type: ignore[misc]
        if len(groups) > 1:
            found.append((name, groups))
    return found


def _flags_differ(facts: RunFacts) -> Iterator[Finding]:
    """Yield one finding for all flags that differ."""
    found = _flag_groups(_present(facts))
    if found:
        more = f" ({len(found) - 1} more flag{'s' * (len(found) > 2)} too)" if len(found) > 1 else ""
        yield _difference(facts, found, more, makes_programs=True)


# Clocks


def _clock_offset(facts: RunFacts) -> Iterator[Finding]:
    """Yield one finding for all hosts whose clocks differ from those of most."""
    if len(facts.present) < 2:
        return
    measured = [
        (host.hello.clock_offset_ms / 1000, host)
        for host in _present(facts)
        if host.hello is not None and host.hello.clock_offset_ms is not None
    ]
    if not measured:
        raise Unmeasured(f"the clocks of the {several(_present(facts))} were not compared yet")
    # With two clocks, it is unknown which is wrong; with several, it is the one that differs from most.
    usual = median_low([seconds for seconds, _ in measured]) if len(measured) > 2 else 0.0
    most = facts.number(CLOCK_SECONDS)
    off = [(usual - seconds, host) for seconds, host in measured if abs(usual - seconds) >= most]
    if not off:
        return
    seconds, worst = max(off, key=lambda each: abs(each[0]))
    hosts, many = [host for _, host in off], len(off) > 1
    most_of = "most" if len(measured) > 2 else f"{worst.noun} 0"
    yield Finding(
        Severity.WARNING,
        1.0,
        f"the clock{'s' * many} of {host_names(hosts)} {'are up to' if many else 'is'} {abs(seconds):,.1f} s "
        f"{'ahead of' if seconds > 0 else 'behind'} that of {most_of}",
        Subject.of(worst),
        evidence=(
            Evidence(f"clock of {host_names([worst])}", seconds, "seconds", "agents"),
            Evidence(f"{several(hosts)} compared", len(measured), source="agents"),
        ),
        proof=Proof("hosts", row=worst.agent),
    )


def _hellos(facts: RunFacts) -> list[object]:
    return [host.hello for host in _present(facts)]


RULES = (
    Rule(
        name="program_mismatch",
        title="Programs differ",
        threshold="for 10 s a program over several hosts has another fingerprint on some of them, and too "
        "few hosts have either, or use either of those that all have loaded",
        rationale="All processes must run the same program: different ones wait in different collectives, "
        "or exchange wrong values.",
        source="fingerprints of the compiled programs of all processes, and windows of the profiler",
        advice="Look for values that depend on the process and are traced into it: its index, seeds, times, "
        "the order of sets, files that it reads.",
        check=_program_mismatch,
        holds_for=0.0,
        explains=("stalled",),
    ),
    Rule(
        name="versions_differ",
        title="Versions differ",
        threshold="hosts of a run have different versions of jax, jaxlib, Python or jaxtop; only the first "
        "two are more than a note",
        rationale="Different compilers make different programs of the same code, which may wait for each "
        "other for ever.",
        source="what each agent reports at its start",
        advice="Install the same versions on all hosts, and start the run again.",
        check=_versions_differ,
        holds_for=0.0,
        explains=("stalled",),
    ),
    Rule(
        name="flags_differ",
        title="Flags differ",
        threshold="hosts of a run have different flags of XLA, or different settings of JAX that change "
        "programs; flags that name places or a process's devices do not count",
        rationale="The same code becomes other programs, which may wait for each other for ever, or compute "
        "other values.",
        source="XLA_FLAGS, LIBTPU_INIT_ARGS and jax.config, as each agent reports them",
        advice="Set the same flags on all hosts: look at the launcher, and at shell profiles of that host.",
        check=_flags_differ,
        explains=("stalled",),
    ),
    Rule(
        name="clock_offset",
        title="Clocks differ",
        threshold="the clock of a host differs from those of most hosts by at least 1 s",
        rationale="Log lines, checkpoints and profiles of different hosts cannot be put in order; "
        "certificates and leases may expire early.",
        source="each agent asks that of process 0, as NTP does, every ten minutes while a viewer is "
        "connected",
        advice="Start chrony, ntpd or systemd-timesyncd on that host; see whether it reaches its servers.",
        check=_clock_offset,
        inputs=_hellos,
        numbers=(CLOCK_SECONDS,),
    ),
)
