"""The content of a reply of NCCL's RAS service: the communicators whose ranks differ.

JSON has every rank. Text lists ranks only of groups that are less than half of a communicator; from JSON, we
use no more than that.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct

from jaxtop.wire import Nccl, NcclCommunicator, NcclCount, NcclRank
from jaxtop_agent.hardware.libraries.ras import RasFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtop_agent.hardware.libraries.ras import RasAnswer

# The number of communicators in a message.
MAX_COMMUNICATORS = 32
# The number of groups of a communicator in a message.
MAX_GROUPS = 8
# The number of ranks of a group in a message.
MAX_RANKS = 64
# The length of a name in a message.
MAX_TEXT_CHARS = 80


class ReadAnswer(NamedTuple):
    """What was read, and what shows whether the answer is about this process's own job; None is unknown."""

    nccl: Nccl
    pids: frozenset[int] | None = None
    processes: int | None = None


def read(answer: RasAnswer, at_ms: int) -> ReadAnswer:
    """Read an answer; raise `RasFailed` if it is malformed."""
    try:
        return _read_json(answer.raw, at_ms) if answer.is_json else _read_text(answer.raw, at_ms)
    except (ValueError, RecursionError) as error:
        raise RasFailed(f"its answer cannot be read: {str(error)[:MAX_TEXT_CHARS]}") from None


def _message(at_ms: int, version: str, count: int, differing: Sequence[NcclCommunicator]) -> Nccl:
    return Nccl(at_ms, version[:MAX_TEXT_CHARS], count, differing=tuple(differing[:MAX_COMMUNICATORS]))


def _bounded(size: int, groups: Sequence[NcclCount]) -> tuple[NcclCount, ...]:
    """Return the largest group and those that launched least, with the ranks of minorities."""
    largest = max(groups, key=lambda each: each.count, default=None)
    ordered = sorted(groups, key=lambda each: -each.launched)

    def is_listed(group: NcclCount) -> bool:
        return group.count == 1 or group.count * 2 < size

    kept = [each for each in ordered if each is largest or each in ordered[-MAX_GROUPS + 1 :]]
    return tuple(
        NcclCount(each.launched, each.count, each.ranks[:MAX_RANKS] if is_listed(each) else ())
        for each in kept
    )


# JSON

# What a message has room for: a larger number makes the answer invalid.
_Number = Annotated[int, Meta(ge=-1, le=1 << 31)]
_Count = Annotated[int, Meta(ge=0, le=1 << 53)]


class _Rank(Struct):
    rank: _Number
    host: str = ""
    pid: _Number = -1
    cuda_dev: _Number = -1
    collective_counts: dict[str, _Count] = {}


class _UnansweredState(Struct, frozen=True):
    unresponsive: bool = False
    considered_dead: bool = False


class _MissingRank(Struct):
    rank: _Number
    host: str = ""
    pid: _Number = -1
    cuda_dev: _Number = -1
    status: _UnansweredState = _UnansweredState()


class _Communicator(Struct):
    hash: str = ""
    size: _Count = 0
    ranks: list[_Rank] = []
    missing_ranks: list[_MissingRank] = []


class _Document(Struct):
    nccl_version: str = ""
    communicators: list[_Communicator] = []


_decoder = msgspec.json.Decoder(_Document)


def _read_json(raw: bytes, at_ms: int) -> ReadAnswer:
    found = _decoder.decode(raw)
    differing = [each for communicator in found.communicators for each in _differing(communicator)]
    pids = {each.pid for communicator in found.communicators for each in communicator.ranks}
    pids |= {each.pid for communicator in found.communicators for each in communicator.missing_ranks}
    return ReadAnswer(
        _message(at_ms, found.nccl_version, len(found.communicators), differing), frozenset(pids)
    )


def _differing(communicator: _Communicator) -> Iterator[NcclCommunicator]:
    """Yield an entry for unresponsive ranks, and one for each operation with unequal numbers of launches."""
    # Ranks that answer, but have left the communicator or not joined it yet, are not outliers.
    unresponsive = [
        each for each in communicator.missing_ranks if each.status.unresponsive or each.status.considered_dead
    ]
    name = communicator.hash[:MAX_TEXT_CHARS]
    if unresponsive:
        yield NcclCommunicator(
            name, communicator.size, unresponsive=tuple(map(_rank, unresponsive[:MAX_RANKS]))
        )
    for operation in sorted({name for each in communicator.ranks for name in each.collective_counts}):
        by_count: dict[int, list[_Rank]] = defaultdict(list)
        for each in communicator.ranks:
            by_count[each.collective_counts.get(operation, 0)].append(each)
        if len(by_count) > 1:
            groups = [
                NcclCount(launched, len(ranks), tuple(map(_rank, ranks[:MAX_RANKS])))
                for launched, ranks in by_count.items()
            ]
            yield NcclCommunicator(
                name, communicator.size, operation[:MAX_TEXT_CHARS], _bounded(communicator.size, groups)
            )


def _rank(each: _Rank | _MissingRank) -> NcclRank:
    return NcclRank(
        each.rank, each.host[:MAX_TEXT_CHARS], each.pid, each.cuda_dev if each.cuda_dev >= 0 else None
    )


# Text

_VERSION = re.compile(r"NCCL version (\S+)")
# Nodes, processes per node, GPUs per process, processes in all, GPUs in all.
_JOB = re.compile(r"^ *\d+  +\d+  +\d+  +(\d{1,9})  +\d+$", re.MULTILINE)
# A group of communicators: its number, communicators, nodes, ranks per node, ranks of each, ranks in all.
_GROUP = re.compile(
    r"^ *(\d{1,9})  +(\d{1,9})  +\d+  +[\d-]+  +(\d{1,9})  +\d+  +[A-Z]+  +[A-Z]+$", re.MULTILINE
)
_HEAD = re.compile(r"^#(\d{1,9})-\d+ \(([0-9a-f]{1,80})\) ([A-Z]+)$")
_OPERATIONS = re.compile(r"^ +Communicator ranks have different (\S+) operation counts$")
_MANY = re.compile(
    r"^ +(\d{1,9}) ranks have (?:launched up to operation (\d{1,15})|not launched any operations)$"
)
_RANK = re.compile(
    r"^ +Rank (\d{1,9})"
    r"(?P<does> has launched up to operation (?P<launched>\d{1,15})| has not launched any operations)?"
    r" -- GPU (?P<device>\d{1,9})(?: \(NVML \d+\))?"
    r" managed by process (?P<pid>\d{1,9}) on node (?P<host>\S+)$"
)


class _Section:
    """The lines about one communicator under "Errors" or "Warnings"."""

    def __init__(self, size: int, name: str) -> None:
        self.size = size
        self.name = name
        self.operation: str | None = None
        self.is_of_status = False  # the next lines are about starting and ending, not about operations
        self.groups: list[NcclCount] = []
        self.unresponsive: list[NcclRank] = []

    def take(self, line: str) -> NcclCommunicator | None:
        """Read a line; return what was read if another kind of operation begins here."""
        if found := _OPERATIONS.match(line):
            done, self.is_of_status = self.done(), False
            self.operation, self.groups = "" if found[1] == "collective" else found[1][:MAX_TEXT_CHARS], []
            return done
        if "ranks have different status" in line:
            self.is_of_status = True
        elif self.is_of_status:
            pass
        elif found := _MANY.match(line):
            self.groups.append(NcclCount(int(found[2] or 0), int(found[1])))
        elif found := _RANK.match(line):
            self._take_rank(found)
        return None

    def _take_rank(self, found: re.Match[str]) -> None:
        rank = NcclRank(
            int(found[1]), found["host"][:MAX_TEXT_CHARS], int(found["pid"]), int(found["device"])
        )
        if found["does"]:
            self.groups.append(NcclCount(int(found["launched"] or 0), 1, (rank,)))
        elif self.operation is None:
            self.unresponsive.append(rank)
        elif self.groups:
            last = self.groups[-1]
            self.groups[-1] = NcclCount(last.launched, last.count, (*last.ranks, rank)[:MAX_RANKS])

    def done(self) -> NcclCommunicator | None:
        if self.unresponsive:
            unresponsive, self.unresponsive = tuple(self.unresponsive[:MAX_RANKS]), []
            return NcclCommunicator(self.name, self.size, unresponsive=unresponsive)
        if self.operation is None or not self.groups:
            return None
        return NcclCommunicator(self.name, self.size, self.operation, _bounded(self.size, self.groups))


def _read_text(raw: bytes, at_ms: int) -> ReadAnswer:
    text = raw.decode(errors="replace")
    version, job = _VERSION.search(text), _JOB.search(text)
    if version is None:
        raise ValueError("it names no version of NCCL")
    sizes = {int(each[1]): (int(each[2]), int(each[3])) for each in _GROUP.finditer(text)}
    differing: list[NcclCommunicator | None] = []
    section: _Section | None = None
    for line in text.splitlines():
        if head := _HEAD.match(line):
            differing.append(section.done() if section is not None else None)
            size = sizes.get(int(head[1]), (0, 0))[1]
            section = _Section(size, head[2]) if head[3] != "ERROR" else None
        elif section is not None:
            differing.append(section.take(line))
    differing.append(section.done() if section is not None else None)
    count = sum(number for number, _ in sizes.values())
    found = [each for each in differing if each is not None]
    return ReadAnswer(_message(at_ms, version[1], count, found), processes=int(job[1]) if job else None)
