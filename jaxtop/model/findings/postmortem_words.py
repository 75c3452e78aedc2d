"""A post-mortem in words: named facts, each of one or more lines, for commands and screens."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base.names import function_of
from jaxtop.base.units import in_bytes, in_minutes
from jaxtop.model.liveness import State
from jaxtop.model.naming.sentences import how_often
from jaxtop.model.stalls.crashes import ending, was_stuck
from jaxtop.model.stalls.native import innermost_first, native_threads, wait_text
from jaxtop.model.stalls.stacks import main_place, place_text
from jaxtop.model.steps.views import steps_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop import wire
    from jaxtop.model.arrays.growth import Grower
    from jaxtop.model.findings.postmortem import DeviceMemory, HeldArrays, LastProgram, Postmortem
    from jaxtop.model.findings.shortage import Size

MAX_DEVICES = 4
# The innermost native frames of each thread.
MAX_NATIVE = 8
MINUTE = 60.0
_WORDS_OF_SOURCES = {
    "exception": "by the exception",
    "allocator": "by the allocator",
    "simulated": "of a simulated limit",
    "machine": "in the machine's memory",
}


class PostmortemFact(NamedTuple):
    """A fact and its lines."""

    name: str
    lines: tuple[str, ...]


def headline(found: Postmortem) -> str:
    """Return who ended, and how."""
    host, bye = found.host, found.host.bye
    return f"{host.label} {'died without a goodbye' if bye is None else ending(bye, host.process_count)}"


def facts(found: Postmortem) -> list[PostmortemFact]:
    """Return what is known, what explains the end first; unknown facts are left out."""
    named = (
        ("signal", tuple(_signal(found))),
        ("stalled", tuple(_stalled(found))),
        ("line", tuple(_line(found))),
        ("native", tuple(_native(found))),
        ("asked", tuple(_asked(found))),
        ("program", tuple(_program(found.program))),
        ("step", tuple(_step(found))),
        ("memory", tuple(_memory(found))),
        ("arrays", tuple(_arrays(found))),
        ("grew", tuple(map(_grew, found.growers))),
    )
    return [PostmortemFact(name, lines) for name, lines in named if lines]


def size(value: Size) -> str:
    return ("" if value.is_exact else "~") + in_bytes(value.bytes)


def _signal(found: Postmortem) -> Iterator[str]:
    """Yield how a process died that said no goodbye: only the kernel and its parent know."""
    if found.state is not State.DIED or found.host.bye is not None:
        return
    if found.kernel:
        yield found.kernel
        return
    yield "not known here: what started the process has its exit status (137 is SIGKILL, 139 is SIGSEGV)"
    yield "the kernel's log on its machine names what it killed for memory, and crashes (`dmesg`)"


def _stalled(found: Postmortem) -> Iterator[str]:
    """Yield for how long nothing had been launched, and what was reported of that, if it was a stall."""
    if found.still_s is None or (found.usual_s is None and not found.stall):
        return
    usual = "" if found.usual_s is None else f" (usually {how_often(found.usual_s)})"
    yield f"nothing was launched in the last {_lasting(found.still_s)}{usual}"
    if found.stall:
        yield found.stall


def _line(found: Postmortem) -> Iterator[str]:
    """Yield the line of the script at which its agent has ended it."""
    host = found.host
    if was_stuck(host) and (place := main_place(host.stacks)) is not None:
        yield place_text(place)


def _native(found: Postmortem) -> Iterator[str]:
    """Yield where threads waited in libraries, the innermost function first."""
    for thread in native_threads(found.host.stacks):
        assert thread.native is not None
        name = "main thread" if thread.is_main else f"thread {thread.name}"
        yield f"the {name} {f'waited {wait_text(thread.native)}'.rstrip()}:"
        lines = innermost_first(thread.native)
        yield from (f"  {line}" for line in lines[:MAX_NATIVE])
        if len(lines) > MAX_NATIVE:
            yield f"  and {len(lines) - MAX_NATIVE} more frames"


def _asked(found: Postmortem) -> Iterator[str]:
    asked = None if found.shortage is None else found.shortage.asked
    if asked is None:
        return
    if found.free is None:
        yield f"{size(asked)}; how much was free is unknown"
        return
    yield f"{size(asked)}; {size(found.free)} was free {_WORDS_OF_SOURCES[found.free_source]}"
    missing = found.missing
    if missing is not None and missing.bytes > 0:
        yield f"{size(missing)} more than was free"
    else:
        yield "less than was free: in pieces too small, or taken since the last report"


def _program(program: LastProgram | None) -> Iterator[str]:
    if program is None:
        return
    entry = program.program
    yield f"{function_of(entry.name)}{f', {entry.created}' if entry.created else ''}: {program.basis}"
    sizes = (
        ("arguments", entry.argument_bytes),
        ("results", entry.output_bytes),
        ("in place of arguments", entry.alias_bytes),
        ("temporaries", entry.temp_bytes),
    )
    known = [f"{name} {in_bytes(value)}" for name, value in sizes if value is not None]
    if known:
        yield f"on a device: {', '.join(known)}"
    if program.adds_bytes is not None:
        yield f"a launch adds {in_bytes(program.adds_bytes)} to its arguments"


def _step(found: Postmortem) -> Iterator[str]:
    host = found.host
    reported, rhythm, count = host.pulse.reported, host.pulse.rhythm, steps_of(host)
    if reported is not None:
        yield f"last step {reported.index:,}, {_ago(found.step_age)}"
    elif count is not None:
        yield f"{count:,} steps when they were last measured"
    # Steps are measured while somebody watches, launches are always counted.
    for function in dict.fromkeys(rhythm.functions if rhythm is not None else ()):
        if launches := host.launches.get(function):
            since = _ago(found.pulse_age)
            if found.still_s is not None:
                since = f"none in the last {_lasting(found.still_s)}"
            yield f"{function} launched {launches:,} times, {since}"


def _memory(found: Postmortem) -> Iterator[str]:
    known = [each for each in found.memory if each.used_bytes is not None]
    known.sort(key=lambda each: -(each.used_bytes or 0))
    for each in known[:MAX_DEVICES]:
        yield _device_line(each)
    if len(known) > MAX_DEVICES:
        yield f"{len(known) - MAX_DEVICES} more devices, each with less"
    if known:
        yield f"measured {_ago(found.memory_age)}"


def _device_line(each: DeviceMemory) -> str:
    words = [f"device {each.device_id}: {in_bytes(each.used_bytes or 0)} in use"]
    for name, value in (
        ("peak", each.peak_bytes),
        ("limit", each.limit_bytes),
        ("arrays", each.arrays_bytes),
    ):
        if value is not None:
            words.append(f"{name} {in_bytes(value)}")
    return ", ".join(words)


def _arrays(found: Postmortem) -> Iterator[str]:
    if found.census_age is None:
        return
    yield f"{found.array_count:,} live, counted {_ago(found.census_age)}; the largest, on a device:"
    yield from map(_array, found.arrays)


def _array(each: HeldArrays) -> str:
    group = each.group
    if group.groups > 1:
        what = f"{group.groups} smaller groups"
    else:
        what = f"{each.name or 'unnamed'} {_type(group)}"
    many = f" ×{each.count:,}" if each.count > 1 else ""
    return f"{in_bytes(each.bytes_per_device)}  {what}{many}{f'  {group.created}' if group.created else ''}"


def _type(group: wire.ArrayGroup) -> str:
    return f"{group.dtype}[{','.join(map(str, group.shape))}]"


def _grew(each: Grower) -> str:
    name = each.name or "unnamed arrays"
    made = f", {each.created}" if each.created else ""
    return f"{name} by {in_bytes(each.bytes_per_minute)} a minute, to {in_bytes(each.bytes_per_device)}{made}"


def _ago(age: float | None) -> str:
    return "at an unknown time" if age is None else f"{_lasting(age)} before the end"


def _lasting(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < MINUTE else in_minutes(seconds / MINUTE)
