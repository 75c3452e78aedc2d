"""Memory that a launch needs in addition to what is in use: fragments, programs that do not fit."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base.names import function_of
from jaxtop.base.units import in_bytes
from jaxtop.model.finding import Evidence, Finding, FindingCost, Proof, Severity, Subject
from jaxtop.model.findings.rule import Rule, Unmeasured
from jaxtop.model.findings.sentences import line_of
from jaxtop.model.hardware.allocators import free_bytes, free_of, largest_block, largest_piece, most_held
from jaxtop.model.programs.loaded_programs import merged_programs
from jaxtop.model.programs.rates import program_of
from jaxtop.model.programs.views import adds_bytes, launched_lately
from jaxtop.model.tuning import Number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop import wire
    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.liveness import HostView
    from jaxtop.model.programs.loaded_programs import LoadedProgram

FRAGMENT_SHARE = Number("share", 0.25, "reported if the largest block is below this share of the free memory")
FREE_SHARE = Number("free_share", 0.1, "share of the limit that must be free")
WORK_SHARE = Number("work_share", 0.01, "a program that ran is reported from this share of the largest on")
# The processes of a program of which we look at the launches.
MAX_MEMBERS = 8

# Fragments


class _Fragments(NamedTuple):
    """A device with free memory in small pieces: the largest one at hand, and all of them."""

    share: float
    largest: int
    free: int
    device_id: int
    view: HostView


def _fragmentation(facts: RunFacts) -> Iterator[Finding]:
    """Yield one finding for the device whose free memory lies in the smallest pieces."""
    views = [view for view in facts.reporting if _searches(view.current.pulse)]
    if not views:
        raise Unmeasured("no allocator reports its largest free block")
    found = [each for view in views for each in _fragments(facts, view)]
    if found:
        worst = min(found)
        too_large = _too_large(worst)
        yield _fragments_finding(facts, worst, too_large)


def _searches(pulse: wire.Pulse) -> bool:
    """Return whether any allocator of a process searches for its largest free block."""
    places = range(len(pulse.devices.largest_free_bytes or ()))
    return any(largest_block(pulse.devices, i) is not None for i in places)


def _fragments(facts: RunFacts, view: HostView) -> Iterator[_Fragments]:
    most, least = (facts.number(each) for each in (FRAGMENT_SHARE, FREE_SHARE))
    sample = view.current.pulse.devices
    memory = zip(
        sample.largest_free_bytes or (), sample.limit_bytes or (), sample.used_bytes or (), strict=False
    )
    for i, (device, (block, limit, used)) in enumerate(zip(view.host.devices, memory, strict=False)):
        if not block or not limit or used is None or block >= most * (limit - used):
            continue  # as on most devices: what else is known makes the share only larger
        free, largest = free_of(sample, i), largest_piece(sample, i)
        if free and largest is not None and free >= least * limit and largest < most * free:
            yield _Fragments(largest / free, largest, free, device.id, view)


def _too_large(fragments: _Fragments) -> wire.Program | None:
    """Return an idle program whose temporaries would fit into the free memory, but into no piece of it."""
    lately = launched_lately(fragments.view.host)
    programs = (each for each in fragments.view.host.programs.programs if each.name not in lately)
    return next(
        (each for each in programs if fragments.largest < (each.temp_bytes or 0) <= fragments.free), None
    )


def _fragments_finding(facts: RunFacts, fragments: _Fragments, too_large: wire.Program | None) -> Finding:
    host = fragments.view.host
    what = (
        ""
        if too_large is None
        else f"; {function_of(too_large.name)} needs {in_bytes(too_large.temp_bytes or 0)}"
    )
    return Finding(
        Severity.INFO if too_large is None else Severity.WARNING,
        0.7,
        f"device {fragments.device_id} has {in_bytes(fragments.free)} free, but at most "
        f"{in_bytes(fragments.largest)} in one piece{what}",
        Subject.of(host, device_id=fragments.device_id, program=too_large.name if too_large else ""),
        cost=FindingCost(bytes_per_device=fragments.free - fragments.largest),
        evidence=(
            Evidence("free", fragments.free, "bytes", "allocator", facts.read_time()),
            Evidence("largest free block", fragments.largest, "bytes", "allocator", facts.read_time()),
        ),
        proof=Proof("memory", f"id={fragments.device_id}", str(fragments.device_id)),
    )


# Programs that do not fit


def _will_not_fit(facts: RunFacts) -> Iterator[Finding]:
    """Yield a finding for each program whose next launch needs more than the fullest device has free."""
    views = {view.host.agent: view for view in facts.reporting}
    free = {agent: min(found) for agent, view in views.items() if (found := free_bytes(view.current.pulse))}
    if not free:
        raise Unmeasured("no device reports a limit of its memory")
    if any(view.host.is_off("launches") for view in views.values()):
        raise Unmeasured("launches are not counted, so it is unknown which programs ran")
    least = min(free.values())
    of_run = [each for each in merged_programs(facts.cluster).merged if each.run == facts.run.id]
    most = max((each.program.flops or 0 for each in of_run), default=0)
    for each in of_run:
        adds = adds_bytes(each.program)
        if adds is None or adds <= least:
            continue
        members = [host.agent for host in each.members if host.agent in free]
        if members:
            agent = min(members, key=free.__getitem__)
            finding = _checked(facts, each, views[agent], free[agent], most)
            if finding is not None:
                yield finding


def _checked(facts: RunFacts, each: LoadedProgram, view: HostView, free: int, most: int) -> Finding | None:
    """Return a finding if a program would not fit even once what runs now has released its temporaries."""
    program = each.program
    members = [facts.cluster.hosts.get(host.agent, host) for host in islice(each.members, MAX_MEMBERS)]
    lately = {name for host in members for name in launched_lately(host)}
    if program.name in lately:
        return None  # it runs, so it fits: its last launch may still hold memory
    temporaries = max(
        (other.temp_bytes or 0 for other in view.host.programs.programs if other.name in lately), default=0
    )
    missing = (adds_bytes(program) or 0) - free - temporaries
    if missing <= 0:
        return None
    launches = max(
        (n for host in members for name, n in host.launches.items() if program_of(name) == program.name),
        default=0,
    )
    has_run = launches > 0 or not _is_above_peak(view.current.pulse, program)
    least = facts.number(WORK_SHARE) * most
    if has_run and (launches < 2 or (program.flops or 0) < least):
        return None  # programs that set a run up are not launched again
    return _program_finding(facts, each, view, free + temporaries, missing, has_run=has_run)


def _is_above_peak(pulse: wire.Pulse, program: wire.Program) -> bool:
    """Return whether a launch would need more than any device ever held, so that there was none."""
    places = range(len(pulse.devices.peak_bytes or ()))
    peaks = [peak for i in places if (peak := most_held(pulse.devices, i)) is not None]
    needs = (program.argument_bytes or 0) + (adds_bytes(program) or 0)
    return not peaks or max(peaks) < needs


def _program_finding(
    facts: RunFacts, each: LoadedProgram, view: HostView, free: int, missing: int, *, has_run: bool
) -> Finding:
    program, host = each.program, view.host
    function = function_of(program.name)
    ran = ", which did fit before" if has_run else ""
    return Finding(
        Severity.INFO if has_run else Severity.WARNING,
        0.5 if has_run else 0.8,
        f"a launch of {function} adds {in_bytes(adds_bytes(program) or 0)}{ran}, but "
        f"{in_bytes(free)} are free on the fullest device",
        Subject.of(host, program=program.name, source=line_of(program.created)),
        about=f"{program.name} {program.fingerprint or ''}",
        cost=FindingCost(bytes_per_device=missing),
        evidence=(
            Evidence("temporaries", program.temp_bytes, "bytes", "compiler"),
            Evidence("results", program.output_bytes, "bytes", "compiler"),
            Evidence("free, once what runs has ended", free, "bytes", host.limit_source, facts.read_time()),
        ),
        proof=Proof("programs", program.name, program.name),
    )


RULES = (
    Rule(
        name="fragmentation",
        title="Memory in pieces",
        threshold="the largest free block is below 25 % of the free memory, which is at least 10 % of the "
        "limit, for 20 s; a warning if a loaded program that does not run needs more than that block",
        rationale="An allocation needs one piece: it fails although there is enough memory in all.",
        source="the allocator's largest free block, pool, use and limit",
        advice="Allocate large arrays first, avoid buffers of ever changing sizes, or set "
        "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async, which has no pool of its own.",
        check=_fragmentation,
        holds_for=20.0,
        stays_for=20.0,
        numbers=(FRAGMENT_SHARE, FREE_SHARE),
    ),
    Rule(
        name="will_not_fit",
        title="Will not fit",
        threshold="results and temporaries of a loaded program exceed what is free on its fullest device "
        "once what runs has ended, for 6 s. A warning if it never ran; a note if it ran at least twice, "
        "computes at least 1 % of the largest program, and would not fit any more",
        rationale="Its launch ends the process with RESOURCE_EXHAUSTED.",
        source="the compiler's bytes of results, aliases and temporaries; the allocator's limit and peak",
        advice="Use a smaller batch for it, rematerialise (jax.checkpoint), donate its arguments, or release "
        "arrays before it is launched.",
        check=_will_not_fit,
        holds_for=6.0,
        numbers=(WORK_SHARE,),
    ),
)
