"""Post-mortems as text and JSON."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from jaxtop import __version__
from jaxtop.base.names import legible
from jaxtop.base.times import timestamp
from jaxtop.export import stacks as of_stacks
from jaxtop.export.readings import fields
from jaxtop.model.findings.postmortem_words import facts, headline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.model.findings.postmortem import HeldArrays, Postmortem
    from jaxtop.model.findings.shortage import Size
    from jaxtop.model.state import LoggedEvent

SCHEMA = 1
_OF_PROGRAM = ("argument_bytes", "output_bytes", "alias_bytes", "temp_bytes", "code_bytes")
_OF_GROWER = ("name", "created", "bytes_per_minute", "bytes_per_device", "seconds")
_INDENT = 10


def to_text(found: Postmortem) -> str:
    """Return a block of lines: how it ended, then what it was like."""
    lines = [legible(headline(found)), f"  {'ended':<{_INDENT}}{_time_text(found.at)}"]
    for fact in facts(found):
        lines += [
            f"  {fact.name if i == 0 else '':<{_INDENT}}{legible(line)}" for i, line in enumerate(fact.lines)
        ]
    lines += [
        f"  {'before' if i == 0 else '':<{_INDENT}}{_time_text(each.at)} {legible(_own(each, found))}"
        for i, each in enumerate(found.events)
    ]
    return "\n".join(lines) + "\n"


def _own(event: LoggedEvent, found: Postmortem) -> str:
    """Return the text of an event without the process, which the headline names."""
    names = [f"{name}{end}" for name in found.host.labels.values() for end in (": ", " ")]
    return next((event.text.removeprefix(name) for name in names if event.text.startswith(name)), event.text)


def _time_text(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def to_json(found: Sequence[Postmortem]) -> str:
    document = {"schema": SCHEMA, "jaxtop": __version__, "processes": [as_value(each) for each in found]}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def as_value(postmortem: Postmortem) -> dict[str, Any]:
    """Return a post-mortem as plain values; what is unknown is None."""
    host, error, program = postmortem.host, postmortem.host.error, postmortem.program
    asked = None if postmortem.shortage is None else postmortem.shortage.asked
    step = host.pulse.reported
    return {
        "run": host.run,
        "name": host.run_name,
        "process_index": host.process_index,
        "hostname": host.hostname,
        "pid": host.pid,
        "state": postmortem.state.value,
        "ended_at": timestamp(postmortem.at),
        "exit_status": None if host.bye is None else host.bye.status,
        "exception": error
        and {
            "type": error.type,
            "message": error.message,
            "source": error.place and f"{error.place.file}:{error.place.line}",
            "in": error.place and error.place.function,
            "function": error.function or None,
        },
        "out_of_memory": postmortem.shortage is not None,
        "asked_bytes": _bytes(asked),
        "free_bytes": _bytes(postmortem.free),
        "free_source": postmortem.free_source or None,
        "missing_bytes": _bytes(postmortem.missing),
        "is_exact": all(each is None or each.is_exact for each in (asked, postmortem.free)),
        "program": program
        and {
            "name": program.program.name,
            "created": program.program.created,
            "basis": program.basis,
            **fields(program.program, _OF_PROGRAM),
            "adds_bytes": program.adds_bytes,
        },
        "step": None if step is None else step.index,
        "step_age_s": None if step is None else _seconds(postmortem.step_age),
        "without_launch_s": _seconds(postmortem.still_s),
        "stalled": postmortem.stall or None,
        "kernel": postmortem.kernel or None,
        "stacks": of_stacks.as_value(host),
        "memory": [each._asdict() for each in postmortem.memory],
        "memory_source": host.pulse.memory_source,
        "memory_age_s": _seconds(postmortem.memory_age),
        "arrays": [_held(each) for each in postmortem.arrays],
        "array_count": postmortem.array_count,
        "census_age_s": _seconds(postmortem.census_age),
        "grew": [fields(each, _OF_GROWER) for each in postmortem.growers],
        "events": [
            {"at": timestamp(each.at), **fields(each, ("severity", "kind", "text"))}
            for each in postmortem.events
        ],
    }


def _held(each: HeldArrays) -> dict[str, Any]:
    of_group = fields(each.group, ("created", "role", "shape", "dtype", "groups"))
    return {"name": each.name, **of_group, **fields(each, ("count", "bytes_per_device"))}


def _bytes(size: Size | None) -> int | None:
    return None if size is None else size.bytes


def _seconds(age: float | None) -> float | None:
    return None if age is None else round(age, 3)
