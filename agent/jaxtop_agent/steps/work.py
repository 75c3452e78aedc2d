"""The operations of a launch of a function; a function may have several loaded programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtop.wire import Program, Programs, Window


class LaunchWork(NamedTuple):
    """The operations of a launch on all devices of this process together; a lower bound if `at_least`."""

    operations: int
    at_least: bool


def of_functions(programs: Programs, windows: Sequence[Window]) -> dict[str, LaunchWork]:
    """Return the work of a launch by program name, without names whose work is unknown."""
    loaded: dict[str, list[tuple[Program, int]]] = {}
    for program, seen_ms in zip(programs.programs, programs.seen_ms, strict=False):
        loaded.setdefault(program.name, []).append((program, seen_ms))
    found = {}
    for name, variants in loaded.items():
        compiled = max(seen_ms for _, seen_ms in variants)
        done = _done([program for program, _ in variants], _launched(name, compiled, windows))
        if done is not None:
            found[name] = done
    return found


def _launched(name: str, since_ms: int, windows: Sequence[Window]) -> Mapping[str | None, int]:
    """Return the launches of each program of a name, from the last window since `since_ms` that saw any."""
    for window in reversed(windows):
        if window.at_ms >= since_ms and (counts := window.launched().get(name)):
            return counts
    return {}


def _done(variants: list[Program], launched: Mapping[str | None, int]) -> LaunchWork | None:
    """Return the mean over the launches seen; without launches, the least of the programs."""
    known = {
        each.fingerprint: each.flops * each.local_devices
        for each in variants
        if each.flops is not None and each.local_devices is not None
    }
    if len(known) < len({each.fingerprint for each in variants}):
        return None
    bounds = {each.fingerprint for each in variants if each.flops_at_least}
    total = sum(launched.values())
    if total and launched.keys() <= known.keys() and None not in launched:
        mean = sum(known[each] * count for each, count in launched.items()) / total
        return LaunchWork(round(mean), not bounds.isdisjoint(launched))
    least = min(known.values())
    return LaunchWork(least, bool(bounds) or least < max(known.values()))
