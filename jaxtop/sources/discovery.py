"""Find agents: by the targets on the command line, by host files, or by this user's run files."""

from __future__ import annotations

import os
import re
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop.base import hostnames, processes
from jaxtop.sources import Seed
from jaxtop.sources.mapping import NO_MAP, AddressMap, Forward
from jaxtop.store import runfiles, unused
from jaxtop.transport import FIRST_PORT, PORTS_TRIED
from jaxtop.wire import LinkState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtop.store.runfiles import PastProcess
    from jaxtop.wire import Hello

ANSWERS_WITHIN_S = 0.3


class NoTarget(Exception):
    """There is nothing to attach to; the text says what to do."""


class NotFound(NoTarget):
    """No live run has this name; one that is starting may get it."""


class RunEnded(NotFound):
    """The run of this name has ended; another one may get it."""


def seeds(
    targets: Sequence[str],
    hostfile: str | None = None,
    show: Callable[[str], None] = lambda _: None,
    address_map: AddressMap = NO_MAP,
    *,
    stays_in_job: bool = False,
    with_ended: bool = False,
) -> list[Seed]:
    """Return where to start for these targets; without any, at the newest live run of this user.

    Args:
        targets: Names and addresses.
        hostfile: A file with more of them.
        show: Receives notes for the user.
        address_map: What to dial in place of addresses.
        stays_in_job: Whether the newest run is left out if it belongs to another job.
        with_ended: Whether runs that ended on this machine are found, too.
    """
    try:
        listed = hostnames.hosts_in_file(hostfile) if hostfile else []
        found = runfiles.tidy(runfiles.find())
        names = [*(name for target in targets for name in _names(target, found)), *listed]
    except hostnames.BadHosts as error:
        raise NoTarget(str(error)) from None
    if not names:
        return _newest(found, show, stays_in_job=stays_in_job)
    endings = cache(runfiles.past)  # read at most once
    started = (
        seed
        for name in names
        for seed in _seeds_of(name, found, endings, address_map, show, with_ended=with_ended)
    )
    return list({seed.target: seed for seed in started}.values())


def forwards(entries: Sequence[str]) -> AddressMap:
    """Return the map of entries such as `node01:7410=localhost:17410` or `node01=127.0.0.2`."""
    return AddressMap(map(_forward, entries))


def _forward(entry: str) -> Forward:
    known, _, leading = entry.partition("=")
    wrong = f"--map {entry[:80]!r} is not HOST:PORT=HOST:PORT or HOST=HOST"
    try:
        (host, port), (to_host, to_port) = _split(known), _split(leading)
        address = resolved(to_host or "localhost")
    except NoTarget as error:
        raise NoTarget(f"{wrong}: {error}") from None
    if not host or not leading or (port is None) != (to_port is None):
        raise NoTarget(wrong)
    return Forward(host, port, _literal(address), to_port)


def _names(target: str, found: list[runfiles.RunFile]) -> list[str]:
    """Return the names in a target: those of `node[1-3]`, unless a run has this name."""
    is_list = re.search(r"\w\[", target) and "/" not in target and not _named(target, found)
    return hostnames.expand(target) if is_list else [target]


def _newest(found: list[runfiles.RunFile], show: Callable[[str], None], *, stays_in_job: bool) -> list[Seed]:
    """Return the agents of the newest run. Inside a job its own run precedes those of other jobs."""
    own, living = processes.job(), [each.hello for each in found if not each.is_stale]
    # Home directories are shared between jobs, and a newer run may be that of another one.
    here = sorted((each for each in living if each.job in (own, None)), key=lambda each: each.job is None)
    ranked = living if own is None else here if stays_in_job else here or living
    if ranked:
        if note := _choice(ranked[0], living, own):
            show(note)
        return _seeds_like(ranked[0], found)
    if living:  # the hosts of this job may be those of the others, too
        raise NoTarget(f"no live run of yours in this job ({own}); `jaxtop ls` lists all others")
    if of_job := _seeds_of_job(show):
        return of_job
    if why := runfiles.why_hidden():
        raise NoTarget(why)
    raise NotFound(
        "no live run of yours on this machine; start one with `jaxtop run SCRIPT` or `jaxtop demo`, "
        "or name a host: `jaxtop attach HOST`"
    )


def _choice(meant: Hello, living: list[Hello], own: str | None) -> str:
    """Return which run was chosen of the living ones; empty if there is nothing to choose."""
    count = len(runfiles.together(living))
    shown = f"showing {meant.name or 'one without a name'} ({meant.run or meant.agent})"
    which, others = "the newest", "`jaxtop ls` lists all of them"
    if own is not None and meant.job not in (own, None):
        return f"no live run of yours in this job ({own}): {shown}, {which} of other jobs; {others}"
    if own is not None and meant.job == own:
        which = "of this job"
    return f"{count} live runs: {shown}, {which}; {others}" if count > 1 else ""


def _seeds_of_job(show: Callable[[str], None]) -> list[Seed]:
    """Return the hosts of the job in which this process runs; none if there is no job or no address."""
    try:
        job = hostnames.hosts_of_job(os.environ)
    except hostnames.BadHosts as error:
        show(str(error))
        return []
    if job is None:
        return []
    variable, names = job
    seeds = []
    for name in names:
        with suppress(NoTarget):  # the others may do
            seeds += _at_address(name)
    show(f"no live run of yours on this machine: trying {len(seeds)} of the {len(names)} hosts of {variable}")
    return seeds


def _seeds_of(
    target: str,
    found: list[runfiles.RunFile],
    endings: Callable[[], list[PastProcess]],
    address_map: AddressMap,
    show: Callable[[str], None],
    *,
    with_ended: bool,
) -> list[Seed]:
    named = _named(target, found)
    if named:  # of several runs of one name, the newest is meant
        return _seeds_like(named[0].hello, found)
    if target.endswith(".mcap"):
        raise NoTarget(
            f"{target} is no live run; `jaxtop replay {target}` opens a recording (--at T: one moment)"
        )
    if target.endswith(".json") or "/" in target:
        if (run_file := runfiles.read(Path(target))) is not None:
            return [_seed(run_file)]
        unknown = NoTarget(f"{target} is not a run file of yours; `jaxtop ls` lists the live runs")
        return _known_to_end(target, endings(), unknown, show, with_ended=with_ended)
    try:
        at_address = _at_address(target, address_map)
    except NoTarget as unknown:
        return _known_to_end(target, endings(), unknown, show, with_ended=with_ended)
    # An ended run hides no host of its name that could be attached to, but some networks resolve any name.
    ended = _ended(target, endings()) if with_ended else []
    return ended if ended and not any(map(_answers, at_address[0].endpoints)) else at_address


def _known_to_end(
    target: str,
    endings: list[PastProcess],
    unknown: NoTarget,
    show: Callable[[str], None],
    *,
    with_ended: bool,
) -> list[Seed]:
    """Return the agents of a run that ended; raise why there are none, or that it has ended."""
    ended, unused_one = _ended(target, endings), _unused(target)
    if ended and not with_ended:
        raise RunEnded("; ".join(filter(None, (_has_ended(target, ended), unused_one)))) from None
    if not ended:
        raise (NotFound(unused_one) if unused_one else unknown) from None
    if unused_one:
        show(f"{unused_one}; this is the run of that name that ended before")
    return ended


def _unused(target: str) -> str:
    """Return why a process of this name that runs is not shown; empty if there is none."""
    pids = ", ".join(str(each.pid) for each in unused.find() if each.name == target)
    return f"{target!r} runs (process {pids}) but is not shown: {unused.WHY}" if pids else ""


def _named(target: str, found: list[runfiles.RunFile]) -> list[runfiles.RunFile]:
    return [each for each in found if _is_of(target, each.hello)]


def _is_of(target: str, hello: Hello) -> bool:
    return target in (hello.name, hello.run, hello.agent, hello.family)


def _ended(target: str, endings: list[PastProcess]) -> list[Seed]:
    """Return the agents of a run that ended; of several runs of one name, those of the latest."""
    named = [each for each in endings if _is_of(target, each.hello)]
    return [
        Seed(each.hello.agent, hello=each.hello, exited=LinkState.DEAD if each.is_dead else LinkState.CLOSED)
        for each in named
        if _is_beside(named[0].hello, each.hello)
    ]


def _has_ended(target: str, ended: list[Seed]) -> str:
    """Return what to do about a run that ended, and which of its processes are still in their exit."""
    found = [each.hello for each in ended if each.hello is not None and each.exited is not LinkState.DEAD]
    pids = ", ".join(str(hello.pid) for hello in found if runfiles.still_exits(hello))
    lingers = f", but process {pids} is still in its exit" if pids else ""
    return f"{target!r} has ended{lingers}; `jaxtop check {target}` says how"


def _is_beside(one: Hello, other: Hello) -> bool:
    """Return whether two agents are shown together: those of a run, and of runs of one family."""
    return other.agent == one.agent or any(
        of_one is not None and of_one == of_other
        for of_one, of_other in ((one.run, other.run), (one.family, other.family))
    )


def _seeds_like(newest: Hello, found: list[runfiles.RunFile]) -> list[Seed]:
    """Return the agent and all others of its run."""
    return [_seed(each) for each in found if _is_beside(newest, each.hello)]


def _seed(run_file: runfiles.RunFile) -> Seed:
    return Seed(
        run_file.hello.agent, hello=run_file.hello, exited=LinkState.DEAD if run_file.is_stale else None
    )


def _answers(address: str) -> bool:
    host, port = _split(address)
    with suppress(OSError), socket.create_connection((host, port or FIRST_PORT), ANSWERS_WITHIN_S):
        return True
    return False


def _at_address(target: str, address_map: AddressMap = NO_MAP) -> list[Seed]:
    host, port = _split(target)
    ports = PORTS_TRIED if port is None else (port,)
    if forwarded := address_map.typed(host, ports):
        return [Seed(target, tuple(forwarded))]
    try:
        address = resolved(host)
    except NoTarget:
        why = (
            f"{target!r} is neither a live run (`jaxtop ls`) nor a host whose name can be resolved; "
            "a process is shown once its script uses JAX"
        )
        raise NotFound(why) from None
    return [Seed(target, tuple(endpoint(address, each) for each in ports))]


def resolved(host: str) -> str:
    """Return an address of this host; raise `NoTarget` if it has none."""
    try:
        found = socket.getaddrinfo(host, FIRST_PORT, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise NoTarget(f"{host!r} is no host whose name can be resolved") from None
    # IPv4 first: it is what agents advertise.
    return str(min(found, key=lambda each: each[0] != socket.AF_INET)[4][0])


def endpoint(address: str, port: int) -> str:
    """Return an address and a port as they are dialled."""
    return f"{_literal(address)}:{port}"


def _literal(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _split(target: str) -> tuple[str, int | None]:
    if target.startswith("["):
        host, _, rest = target[1:].partition("]")
        port = rest.removeprefix(":")
    elif target.count(":") == 1:
        host, _, port = target.partition(":")
    else:
        host, port = target, ""
    if not port:
        return host, None
    if not port.isdecimal() or len(port) > 5 or not 0 < int(port) < 65536:
        raise NoTarget(f"{target!r} does not end in a port between 1 and 65535")
    return host, int(port)
