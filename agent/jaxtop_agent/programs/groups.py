"""Collectives' members as a program's text has them: replica groups in their three notations.

`{{0,2},{1,3}}` lists the groups. `[2,4]<=[4,2]T(1,0)` numbers the devices, reshapes, transposes, and has one
group in each row. `mesh['a'=4,'b'=2] {'b'}` groups along axes of a mesh, or along parts of axes, as in
`'a':(1)2`.
"""

from __future__ import annotations

import re
from itertools import chain

from jaxtop import wire
from jaxtop.traces.members import AxisPart, Groups, along, rows, transposed

PATTERN = re.compile(
    r"\breplica_groups=(\{\}|\{[\d,{}\s]*\}|\[[\d,]*\]<=\[[\d,]*\](?:T\([\d,]*\))?"
    r"|mesh\[[^\]]*\](?:,\s*device_ids=\((?:(?:<=)?\[[\d,]*\](?:T\([\d,]*\))?|[\d,]*)\))?\s*\{[^}]*\})"
)
PAIRS = re.compile(r"\bsource_target_pairs=(\{[\d,{}\s]*\})")
_LISTED = re.compile(r"\{\s*(?:\{\s*\d[\d,\s]*\}\s*,?\s*)*\}")
_GROUP = re.compile(r"\{([\d,\s]+)\}")
_IOTA = re.compile(r"\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MESH = re.compile(
    r"mesh\[([^\]]*)\](?:,\s*device_ids=\((?:(?:<=)?\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))\))?\s*\{([^}]*)\}"
)
_AXIS = re.compile(r"\s*('[^']*'|[^',=\s]+)=(\d+)\s*(?:,|$)")
_PART = re.compile(r"\s*('[^']*'|[^',:\s]+)(?::\((\d+)\)(\d+))?\s*(?:,|$)")


def read(text: str) -> Groups | None:
    """Parse the groups; an empty result is one group of all devices. None if the text cannot be read."""
    try:
        if text.startswith("{"):
            return _listed(text)
        return _iota(text) if text.startswith("[") else _mesh(text)
    except (ValueError, IndexError, KeyError, ZeroDivisionError):
        return None


def _listed(text: str) -> Groups | None:
    if not _LISTED.fullmatch(text):
        return None
    return tuple(tuple(map(int, group[1].split(","))) for group in _GROUP.finditer(text))


def _iota(text: str) -> Groups | None:
    match = _IOTA.fullmatch(text)
    if match is None:
        return None
    count, size = int(match[1]), int(match[2])
    ids = transposed(_numbers(match[3]), _numbers(match[4]) if match[4] else ())
    return rows(ids, size) if count * size == len(ids) else None


def _mesh(text: str) -> Groups | None:
    match = _MESH.fullmatch(text)
    if match is None:
        return None
    axes = {axis[1]: int(axis[2]) for axis in _whole(_AXIS, match[1])}
    if match[2]:
        ids = transposed(_numbers(match[2]), _numbers(match[3]) if match[3] else ())
    elif match[4]:
        ids = list(_numbers(match[4]))
    else:
        ids = transposed(tuple(axes.values()))
    number = {axis: place for place, axis in enumerate(axes)}
    parts = [
        AxisPart(number[part[1]], int(part[2] or 1), int(part[3] or axes[part[1]]))
        for part in _whole(_PART, match[5])
    ]
    return along(tuple(axes.values()), ids, parts)


def _whole(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """Return consecutive matches that together cover the whole text."""
    found, at = [], 0
    while at < len(text):
        match = pattern.match(text, at)
        if match is None:
            raise ValueError("something else between the axes")
        found.append(match)
        at = match.end()
    return found


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def packed(listed: Groups) -> wire.ReplicaGroups:
    """Return the groups in the form that messages have."""
    sizes = tuple(map(len, listed))
    members = wire.pack_runs(tuple(chain.from_iterable(listed)))
    return wire.ReplicaGroups(sizes[:1] if len(set(sizes)) == 1 else sizes, members)
