"""Functions that are compiled again and again."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from jaxtop.base import names
from jaxtop.base.names import shorten
from jaxtop.model.finding import Evidence, Finding, FindingCost, Proof, Severity, Subject
from jaxtop.model.findings.gap_findings import SAMPLES
from jaxtop.model.findings.rule import Rule, Unmeasured, never
from jaxtop.model.host import device_entry
from jaxtop.model.naming.families import Role
from jaxtop.model.programs.compiles import cause_of, lost_ms
from jaxtop.model.programs.rates import program_of
from jaxtop.model.steps.views import pace_of
from jaxtop.model.tuning import Number
from jaxtop.model.wall_time.gaps import not_hidden
from jaxtop.model.wall_time.parts import mean_of
from jaxtop.wire import COMPILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.host import Host
    from jaxtop.model.programs.compiles import Cause
    from jaxtop.wire import Compilation, CompiledLine

MIN_SAMPLES = 10
# The fewest new programs of a function that make a finding.
MIN_VARIANTS = 4
# The time within which these programs come.
VARIANTS_WITHIN_MS = 120_000
# The shortest time between the first and the last of these programs.
MIN_VARIANTS_SPAN_MS = 12_000
# A function with at least this many launches is in use.
MIN_SETTLED_LAUNCHES = 20
# A function in use has settled if it had no new program for this time.
SETTLED_MS = 15_000
# The fewest recent programs of a settled function that make a finding.
MIN_RECENT_VARIANTS = 2
# The time within which programs of a settled function are recent.
RECOMPILE_RECENT_MS = 60_000
# The next step where the cause is known.
ADVICE = {
    "shape": "Pad the argument to a few fixed shapes, or drop the last, smaller batch.",
    "dtype": "Convert the argument to one dtype before the call.",
    "weak_type": "Pass jnp.asarray(value, dtype) instead of a Python number, so that it has one type.",
    "sharding": "Place the argument once with jax.device_put, and give jax.jit out_shardings that match.",
    "static": "Pass the value as an array instead of a static argument, or make it change rarely.",
    "function": "Make the function and call jax.jit on it once, outside the loop.",
    "structure": "Pass the same keys and fields each time; use arrays of zeros instead of None.",
    "setting": "Set it once before the first step instead of around single calls.",
}
COMPILING = Number("share", 0.2, "fewer compilations are reported from this share of the time on")
# A process is warm after this time without a compilation.
WARM = Number("seconds", 60.0, "reported after this many seconds without a compilation")
# A shorter compilation, in seconds, delays nobody.
MIN_COMPILATION_S = 0.2
# Compilations that begin within this time of the first late one are reported with it.
LATE_COMPILATIONS_MS = 10_000
# A single compilation is reported for this long.
LATE_FOR_S = 600.0
LONGEST_TEXT = 120


def _check(facts: RunFacts) -> Iterator[Finding]:
    """Yield a finding for each function, with the process that compiled it most often."""
    if not any(view.current.programs.at_ms for view in facts.reporting):
        raise Unmeasured("the loaded programs were not read yet")
    found: dict[str, list[Host]] = {}
    least = facts.number(COMPILING)
    for view in facts.reporting:
        for name in view.current.programs.recompiling or _many_lately(view.current, least):
            if view.current not in (hosts := found.setdefault(name, [])):
                hosts.append(view.current)
    for name, hosts in found.items():
        yield _finding(facts, name, hosts)


def _check_late(facts: RunFacts) -> Iterator[Finding]:
    """Yield a finding for each function that was compiled again although its process had been warm."""
    if not any(view.current.programs.at_ms for view in facts.reporting):
        raise Unmeasured("the loaded programs were not read yet")
    found: dict[str, tuple[Host, Compilation]] = {}
    for view in facts.reporting:
        for each in _late(view.current, facts.number(WARM), facts.read_time()):
            found[program_of(each.function)] = view.current, each
    for name, (host, each) in found.items():
        severity = Severity.WARNING if _serves(host) else Severity.INFO
        took = each.duration_ms / 1000
        yield Finding(
            severity,
            0.9,
            shorten(f"{each.function} took {took:.1f} s to compile after warm-up: {each.why}", LONGEST_TEXT),
            Subject.of(host, program=name, source=each.source),
            about=name,
            evidence=(
                Evidence("compilation", took, "seconds", "JAX's compilation events", each.at_ms / 1000),
                Evidence("before", each.before or None, source="arguments compared"),
                Evidence("after", each.after or None, source="arguments compared"),
                Evidence("launches before", host.launches.get(each.function), source="launch counters"),
            ),
            advice=ADVICE.get(each.cause, ""),
            proof=Proof("programs", row=name),
            since=each.at_ms / 1000,
        )


def _serves(host: Host) -> bool:
    """Whether requests wait for a compilation: it makes no steps, or it says that it serves."""
    role = host.hello.role if host.hello is not None else None
    return host.pulse.rhythm is None or Role(role or "").serves


def _late(host: Host, warm_s: float, now: float) -> Iterator[Compilation]:
    """Yield the late compilations of the script's functions.

    A new shape compiles several functions, one after the other: all within a few seconds count.
    """
    listed = sorted(host.programs.compilations, key=lambda each: each.at_ms)
    late_ms: int | None = None
    for before, each in pairwise(listed):
        began_ms = each.at_ms - each.duration_ms
        if began_ms - before.at_ms >= warm_s * 1000:
            late_ms = began_ms
        if late_ms is None or began_ms - late_ms > LATE_COMPILATIONS_MS:
            continue
        is_the_scripts = program_of(each.function) not in host.programs.of_jax
        is_long = each.is_again and each.duration_ms >= MIN_COMPILATION_S * 1000
        is_used = host.launches.get(each.function, 0) >= MIN_SETTLED_LAUNCHES
        if is_the_scripts and is_long and is_used and now - each.at_ms / 1000 <= LATE_FOR_S:
            yield each


def _many_lately(host: Host, least: float) -> list[str]:
    """Return the function that was compiled several times lately, while the main thread compiles.

    Where a compilation takes long, fewer than five fit into a minute. Operations on the arguments are
    compiled again, too, so JAX's own functions do not count, and only the function that takes longest is
    returned.
    """
    if (_share(host) or 0.0) < least:
        return []
    now, took, seen = host.pulse.at_ms, Counter[str](), defaultdict[tuple[str, str], list[int]](list)
    for key, at_ms, duration_ms in _compiled(host):
        seen[key].append(at_ms)
        took[key[0]] += duration_ms
    for each in host.pulse.compiling:
        if (key := (program_of(each.function), "")) in seen:
            seen[key].append(now)
    often = {
        program_of(function) for function, count in host.launches.items() if count >= MIN_SETTLED_LAUNCHES
    }
    found = {
        name
        for (name, _), times in seen.items()
        if _are_many(sorted(times), now) or (name in often and _is_again(sorted(times), now))
    }
    return sorted(found, key=took.__getitem__)[-1:]


def _compiled(host: Host) -> Iterator[tuple[tuple[str, str], int, int]]:
    """Yield when the script's functions were compiled and for how long: the latest times, or loaded programs.

    A function without a name is identified by its line. Programs that are no longer loaded were compiled,
    too.
    """
    loaded = defaultdict[tuple[str, str], list[tuple[int, int]]](list)
    latest = defaultdict[tuple[str, str], list[tuple[int, int]]](list)
    programs = host.programs
    for i, (program, at_ms) in enumerate(zip(programs.programs, programs.seen_ms, strict=False)):
        if program.created is not None:
            key = _key(names.function_of(program.name), program.created.split(" ")[0])
            loaded[key].append((at_ms, device_entry(programs.compile_ms, i) or 0))
    for each in programs.compilations:
        latest[_key(each.function, each.source)].append((each.at_ms, each.duration_ms))
    own = frozenset(programs.of_jax)
    for key in loaded.keys() | latest.keys():
        if key[0] not in own:
            yield from ((key, *each) for each in max(latest[key], loaded[key], key=len))


def _key(function: str, source: str) -> tuple[str, str]:
    """Return the program's name, and the line only if many functions share the name."""
    program = program_of(function)
    return program, source if names.is_nameless_program(program) else ""


def _are_many(times: Sequence[int], now: int) -> bool:
    """Return whether many programs of a function are new, by the times at which they appeared."""
    lately = [each for each in times if now - each <= VARIANTS_WITHIN_MS]
    return len(lately) >= MIN_VARIANTS and lately[-1] - lately[0] >= MIN_VARIANTS_SPAN_MS


def _is_again(times: Sequence[int], now: int) -> bool:
    """Return whether a function is compiled again after a time in which it was not."""
    settled = [i for i, (one, next_one) in enumerate(pairwise(times), 1) if next_one - one >= SETTLED_MS]
    return (
        bool(settled)
        and sum(now - each <= RECOMPILE_RECENT_MS for each in times[settled[0] :]) >= MIN_RECENT_VARIANTS
    )


def _finding(facts: RunFacts, name: str, hosts: Sequence[Host]) -> Finding:
    host = max(hosts, key=lambda each: each.programs.compiles.get(name, 0))
    share = _share(host)
    pace = pace_of(host)
    parts = facts.parts.get(host.agent) or mean_of(facts.parts.values())
    lost = None if share is None else min(share, not_hidden(host, parts)) * _part_of(host, name)
    who = facts.named(hosts)
    variants = [each for each in host.programs.programs if each.name == name]
    cause, line = _cause(host, name)
    if line is not None:
        variants = []  # of other functions as well
    # Some variants may be from before JAX was watched.
    count = max(host.programs.compiles.get(name, 0), len(variants)) if line is None else line.count
    created = next((each.created for each in variants if each.created), None) or ""
    source = created.split(" ")[0] if cause is None else cause.last.source
    changed = _changed(variants) if cause is None else f": {cause.words}"
    what = names.function_of(name) if line is None else f"{line.function} at {line.source}"
    return Finding(
        Severity.WARNING,
        0.95,
        f"{what} was compiled {count:,} times on {who}{changed}",
        Subject.of(host, program=name, source=source),
        about=name,
        cost=FindingCost(None if lost is None or not pace else lost * 1000 / pace, lost),
        evidence=(
            Evidence("compilations", count, source="JAX's compilation events", at=host.pulse_at),
            Evidence("main thread in compilation", share, "ratio", SAMPLES, host.pulse_at),
            *_variants_evidence(host, None if line is not None else len(variants)),
            *_cause_evidence(host, name, cause, line),
        ),
        advice="" if cause is None else ADVICE.get(cause.last.cause, ""),
        proof=Proof("programs", row=name),
    )


def _part_of(host: Host, name: str) -> float:
    """Return the part of the time of all latest compilations that a function's took; all, if unknown."""
    listed, took = host.programs.compilations, Counter[str]()
    last_ms = max((each.at_ms for each in listed), default=0)
    for each in listed:
        if last_ms - each.at_ms <= VARIANTS_WITHIN_MS:
            took[program_of(each.function)] += each.duration_ms
    return took[name] / took.total() if took[name] else 1.0


def _share(host: Host) -> float | None:
    total = sum(host.activity.samples)
    return host.activity.samples[COMPILE] / total if total >= MIN_SAMPLES else None


def _cause(host: Host, name: str) -> tuple[Cause | None, CompiledLine | None]:
    """Return why a function is compiled again; where many share its name, also the line that does so most.

    Many lines call JAX's own functions, too.
    """
    listed = [each for each in host.programs.compilations if program_of(each.function) == name]
    if not names.is_nameless_program(name) and name not in host.programs.of_jax:
        return cause_of(listed, name), None
    again = Counter(each.source for each in listed if each.is_again and each.source)
    if not again:
        return cause_of(listed, name), None
    (source, _), *_ = again.most_common(1)
    lines = (
        each for each in host.programs.lines if each.source == source and program_of(each.function) == name
    )
    return cause_of([each for each in listed if each.source == source], name), next(lines, None)


def _variants_evidence(host: Host, count: int | None) -> Iterator[Evidence]:
    if count is not None:
        yield Evidence("variants loaded", count, source="loaded programs", at=host.pulse_at)


def _cause_evidence(
    host: Host, name: str, cause: Cause | None, line: CompiledLine | None
) -> Iterator[Evidence]:
    if cause is not None:
        argument = cause.last.argument or "the function"
        yield Evidence(
            "changed", f"{cause.last.cause} of {argument}", source="arguments compared", at=host.pulse_at
        )
        lost = lost_ms(host.programs.lines).get(name) if line is None else line.duration_ms
        yield Evidence(
            "time lost",
            None if lost is None else lost / 1000,
            "seconds",
            "JAX's compilation events",
            host.pulse_at,
        )


def _changed(variants: Sequence[object]) -> str:
    """Return what differs between the last variants, as far as their sizes show it."""
    sizes = {size for each in variants if (size := getattr(each, "argument_bytes", None)) is not None}
    if len(variants) < 2 or not sizes:
        return ""
    if len(sizes) == 1:
        return ": its arguments have the same size each time"
    return f": its arguments have {len(sizes)} different sizes"


RULES = (
    Rule(
        name="recompilation",
        title="Recompilation",
        threshold="a function of the script is compiled five times within a minute, or less often if it "
        "takes 20 % of the time",
        details=(
            "Five times count over more than eight seconds.",
            (
                "With 20 % of the time: four times in two minutes, or twice in a minute if it was "
                "launched 20 times and not compiled for 15 s."
            ),
            "Whether its programs stay loaded does not matter.",
            (
                "One of JAX's own functions, which an operation outside of jit calls, counts if one "
                "line compiles it so over 40 s, after the first steps."
            ),
        ),
        rationale="While JAX compiles a step, nothing is launched; and each program takes memory.",
        source="JAX's compilation events and the loaded programs",
        advice="Pad arguments to a few shapes; make a function that is passed to jit once, outside the loop.",
        check=_check,
        holds_for=0.0,
        explains=("input_bound", "pauses", "slower_than_before", "compiled_late"),
        makes_event=never,
        numbers=(COMPILING,),
    ),
    Rule(
        name="compiled_late",
        title="Compiled late",
        threshold="a function of the script, launched 20 times, was compiled again after 60 s without any "
        "compilation, for at least 0.2 s; for ten minutes. A note where the process makes steps, "
        "unless its role is server, serving, engine or inference",
        rationale="A request waits as long as its program compiles; a server compiles all shapes first.",
        source="JAX's compilation events, and the arguments compared",
        advice="Pad requests to the shapes that are compiled in the warm-up, or add this shape there.",
        check=_check_late,
        holds_for=0.0,
        numbers=(WARM,),
    ),
)
