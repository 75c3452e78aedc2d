"""The detail of one host, as a strip below the hosts: its step, its machine, its threads."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.base import tested_versions, units
from jaxtop.model.figure_type import Level
from jaxtop.model.findings.postmortem_words import facts
from jaxtop.model.stalls.crashes import ending
from jaxtop.model.steps.views import StepView, step_of, steps_of
from jaxtop.tui.core import text
from jaxtop.tui.draw.panel import flowed
from jaxtop.tui.draw.panes.facts import GAP, fitted, joined, pairs, side_by_side
from jaxtop.tui.draw.panes.hardware import host_lines, of_level, step_lines, thread_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.model import Host, State
    from jaxtop.model.findings.postmortem import Postmortem
    from jaxtop.tui.draw.ink import Ink

# The least width for three sections side by side.
THREE_SECTIONS_WIDTH = 110
# The least width for two sections side by side.
TWO_SECTIONS_WIDTH = 64
# The lines that the facts keep above the section of an engine.
MIN_FACTS = 6
# The title of the section of an engine.
SERVED = "the engine serves"
# A part of a step that is smaller is shown as 0 %.
MIN_PART_SHARE = 0.005


@dataclass(frozen=True)
class HostSubject:
    """A host with its current figures, its step, the recent step times, and all that it last reported.

    `still` is the number of seconds without a launch, if that is far longer than usual; `age` is the number
    of seconds since its last report.
    """

    label: str
    state: State
    host: Host
    last: Host
    age: float | None
    step: StepView | None
    trend: Sequence[float | None] = ()
    still: float | None = None
    # What others show of a process that cannot be reached.
    seen: str = ""
    # What a process that failed was like.
    postmortem: Postmortem | None = None
    # Where its steps go, by name of the part; empty if that is unknown.
    parts: Sequence[tuple[str, float]] = ()


def host_pane(subject: HostSubject, ink: Ink, width: int, height: int) -> Text:
    count = 3 if width >= THREE_SECTIONS_WIDTH else 2 if width >= TWO_SECTIONS_WIDTH else 1
    room = (width - GAP * (count - 1)) // count
    head = Text(f"{text.STATE_SIGNS[subject.state]} ", ink.style(ink.colour_of(subject.state)), end="")
    head.append(subject.label, ink.figure)
    if subject.seen:
        step = [Text(line, ink.note, end="") for line in wrap(subject.seen, room)]
    elif subject.state.is_silent:
        step = _last_step(subject, ink)
        if subject.last.bye is not None and subject.last.error is not None:
            last = ending(subject.last.bye, subject.last.process_count)
            step.insert(0, Text(text.printable(last), of_level(Level.BAD, ink), end=""))
    else:
        step = [pairs([("step", _made_of(subject.step) if subject.step else "not found yet")], ink)]
    if subject.still is not None:
        step.append(Text(f"last step {units.age(subject.still)} ago", of_level(Level.WARNING, ink), end=""))
    if subject.step is not None:
        step += step_lines(subject.step, ink, room, subject.trend)
    step += _parts(subject, ink, room)
    if subject.postmortem is None:
        machine, busy = _machine(subject, ink, room, height if count == 2 else None)
    else:
        machine, busy = _end_lines(subject.postmortem, ink, room)
    if untested := tested_versions.untested(subject.last.hello.jax if subject.last.hello else None):
        step += [Text(line, ink.note, end="") for line in wrap(text.printable(untested), room)]
    step.insert(0, head)
    served = served_lines(subject.host, ink, width)[: max(0, height - MIN_FACTS)]
    if count == 1:
        return joined([*fitted([*step, *machine, *busy], width, height - len(served)), *served])
    parts = [step, machine, busy] if count == 3 else [step, [*machine, *busy]]
    return joined([*side_by_side([(room, part) for part in parts], height - len(served)), *served])


def _parts(subject: HostSubject, ink: Ink, room: int) -> list[Text]:
    """Return the parts of a step that are not 0, on as few lines as there is room for."""
    shown = [(name, share) for name, share in subject.parts if share >= MIN_PART_SHARE]
    return flowed((pairs([(name, units.share(share))], ink) for name, share in shown), room)


def served_lines(host: Host, ink: Ink, width: int) -> list[Text]:
    """Return what an engine says about its requests, if the agent reads that."""
    served = host.pulse.served
    pieces = (pairs([(text.printable(name), units.loss(value))], ink) for name, value in served.items())
    return [Text(SERVED, ink.figure, no_wrap=True, end=""), *flowed(pieces, width)] if served else []


def _machine(subject: HostSubject, ink: Ink, room: int, height: int | None) -> tuple[list[Text], list[Text]]:
    """Return the machine and the busy threads; both must fit into the height, if there is one."""
    machine = host_lines(subject.host.pulse, ink, room)
    threads = thread_lines(subject.host.pulse.host.busy_threads, ink)
    busy = [pairs([("busy threads", "")], ink), *threads] if threads else []
    if threads and height is not None and len(machine) + len(busy) > height:
        busy = [pairs([("busiest", "")], ink).append_text(threads[0])]  # a title needs a line below it
    return machine, busy


def _end_lines(found: Postmortem, ink: Ink, room: int) -> tuple[list[Text], list[Text]]:
    """Return what a process asked for and ran at its end, and what it held."""
    lines: dict[str, list[Text]] = {}
    for fact in facts(found):
        words = [f"{fact.name} {fact.lines[0]}", *(f"  {line}" for line in fact.lines[1:])]
        parts = [each for line in words for each in wrap(text.printable(line), room, subsequent_indent="  ")]
        lines[fact.name] = [Text(each, end="") for each in parts]
        lines[fact.name][0].stylize(ink.note, 0, len(fact.name))
    lines.pop("step", None)  # the step stands below the name of the process
    held = [*lines.pop("arrays", ()), *lines.pop("grew", ())]
    return [line for those in lines.values() for line in those], held


def _last_step(subject: HostSubject, ink: Ink) -> list[Text]:
    """Return the step of a process that reports nothing: what makes it, and the last one reported."""
    made, reported, count = step_of(subject.last), subject.last.pulse.reported, steps_of(subject.last)
    if reported is None and count is None:
        return [pairs([("step", "not found")], ink)]
    name = _made_of(made) if made else "agent.step()"
    at = f"last step {reported.index:,}" if reported else f"{count:,} steps"
    return [
        pairs([("step", name)], ink),
        Text(f"{at}, heard {units.age(subject.age)} ago", ink.note, end=""),
    ]


def _made_of(step: StepView) -> str:
    if step.launches is None or step.launches <= 1:
        return step.name
    return f"{step.name}, {step.launches:.3g} launches"
