"""Missing donation: a step that returns a new state while the old one is still held."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base.names import function_of
from jaxtop.base.units import in_bytes
from jaxtop.model.finding import Evidence, Finding, FindingCost, Proof, Severity, Subject
from jaxtop.model.findings.large_arrays import (
    MIN_SAVED_SHARE,
    SAVES_AT_LEAST,
    of_step,
    on_device,
    one_host_per_mesh,
    step_programs,
)
from jaxtop.model.findings.rule import Rule, Unmeasured
from jaxtop.model.findings.sentences import line_of
from jaxtop.model.tuning import Number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop import wire
    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.host import Host

UNDONATED_SHARE = Number("share", 0.25, "reported if this share of the new state is held twice")


class _UndonatedProgram(NamedTuple):
    """A program whose results replace a state of this size, of which `twice` bytes are held twice."""

    twice: int
    state: int
    program: wire.Program
    host: Host


def _undonated(facts: RunFacts) -> Iterator[Finding]:
    """Yield a finding for each program of the step that returns a new state while the old one is held."""
    views = [view for view in one_host_per_mesh(facts) if of_step(view)]
    if not views:
        raise Unmeasured("no step was found yet, or no process has counted its arrays")
    candidates = [(view, program) for view in views for program in step_programs(view)]
    sizes = [program.output_bytes for _, program in candidates if program.alias_bytes is not None]
    known = [each for each in sizes if each is not None]
    if not known:
        raise Unmeasured("the compiler reports no memory figures of the step's programs")
    least = facts.number(SAVES_AT_LEAST)
    if max(known) < least:
        doubt = "" if len(known) == len(candidates) else ", where their sizes are known"
        raise Unmeasured(f"the results of the step take less than {in_bytes(least)} on a device{doubt}")
    found: dict[str, _UndonatedProgram] = {}
    for view, program in candidates:
        each = _held_twice(facts, view.host, program)
        if each is not None and (program.name not in found or found[program.name].twice < each.twice):
            found[program.name] = each
    for each in found.values():
        yield _undonated_finding(facts, each)


def _held_twice(facts: RunFacts, host: Host, program: wire.Program) -> _UndonatedProgram | None:
    """Return what a program holds twice; None if it reuses the memory of its arguments, or returns no state.

    Arrays of the state are its results if the line that calls it created them. Parameters and optimizer state
    replace those that went in: the arguments must be at least as large.
    """
    output, alias, arguments = program.output_bytes, program.alias_bytes, program.argument_bytes
    if program.created is None or not output or alias is None or arguments is None:
        return None
    least = facts.number(SAVES_AT_LEAST)
    if output - alias < least:
        return None
    census = host.arrays
    state = sum(
        group.bytes_per_device
        for group, count in zip(census.groups, census.counts, strict=True)
        if count and group.created == program.created and group.role in ("parameters", "optimizer")
    )
    twice = min(state, output) - alias
    share = facts.number(UNDONATED_SHARE)
    least = max(least, share * state, MIN_SAVED_SHARE * on_device(census))
    return (
        None if twice < least or arguments < 0.9 * state else _UndonatedProgram(twice, state, program, host)
    )


def _undonated_finding(facts: RunFacts, each: _UndonatedProgram) -> Finding:
    program, line = each.program, line_of(each.program.created)
    function = function_of(program.name)
    return Finding(
        Severity.WARNING if facts.is_memory_scarce else Severity.INFO,
        0.8,
        f"{function} returns a new state without donation of the old one: {in_bytes(each.twice)} held twice "
        f"on each device",
        Subject.of(each.host, program=program.name, source=line),
        about=program.name,
        cost=FindingCost(bytes_per_device=each.twice),
        evidence=(
            Evidence("state that its line creates", each.state, "bytes", "arrays", facts.read_time()),
            Evidence("arguments", program.argument_bytes, "bytes", "compiler"),
            Evidence("results", program.output_bytes, "bytes", "compiler"),
            Evidence("results that reuse arguments", program.alias_bytes, "bytes", "compiler"),
        ),
        proof=Proof("programs", program.name, program.name),
        advice=f"If nothing reads the old state after the call, pass donate_argnums for it to jax.jit of "
        f"{function} (called at {line}).",
    )


RULES = (
    Rule(
        name="undonated",
        title="State not donated",
        threshold="a program of the step returns parameters or optimizer state, created by the line that "
        "calls it, of which a quarter, 8 MiB and 5 % of the arrays do not reuse the memory of its arguments; "
        "a warning where a device is 85 % full",
        rationale="Without donation the old and the new state are both held during the step.",
        source="the compiler's bytes of arguments, results and aliases, and the line that created each live "
        "array. Whether something reads the old state later is not known",
        advice="Pass donate_argnums for the state to jax.jit, if nothing reads the old state after the call.",
        check=_undonated,
        holds_for=4.0,
        stays_for=20.0,
        numbers=(UNDONATED_SHARE, SAVES_AT_LEAST),
    ),
)
