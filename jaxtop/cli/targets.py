"""The arguments that select a cluster, and how they become a source; shared by several commands."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from typing import TYPE_CHECKING

from jaxtop.base import hostnames, keys
from jaxtop.base.feature import hook
from jaxtop.cli import ways
from jaxtop.cli.errors import UserError
from jaxtop.cli.text.words import legible, note
from jaxtop.transport import PORTS_TRIED

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from jaxtop.sources import LiveSource, Source


# Seconds between two looks whether a run has appeared.
LOOKS_EVERY_S = 0.25
SHORTHANDS = ("ssh://[USER@]HOST[:PORT][/TARGET]", "slurm://JOBID", "k8s://NAMESPACE/POD")


def add_arguments(parser: argparse.ArgumentParser, *others: str) -> None:
    """Add the arguments; `others` are what else the command takes as a target."""
    parser.add_argument("target", nargs="*", metavar="TARGET", help=forms(*SHORTHANDS, *others))
    add_options(parser)


def add_own_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for what this machine reaches by itself."""
    parser.add_argument("target", nargs="*", metavar="TARGET", help=forms())
    _add_own_options(parser)


def forms(*others: str) -> str:
    """Return the forms that a target can have."""
    tried = f"tries ports {PORTS_TRIED[0]} to {PORTS_TRIED[-1]}"
    return ", ".join((f"run name, run id, host ({tried}), host:port or run file", *others))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how targets are reached, for commands that name their targets otherwise."""
    _add_own_options(parser)
    parser.add_argument(
        "--via",
        metavar="CMD",
        help="run jaxtop on the other side of this command, such as 'ssh login01' or 'docker exec -i C', "
        "and look from there; its command line replaces {} in a word, else it is appended",
    )


def _add_own_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hostfile", metavar="FILE", help="a file with one host or host:port per line")
    parser.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="FROM=TO",
        help="dial another address in place of one of the cluster, such as node01:7410=localhost:17410 for a "
        "forwarded port, or node01=127.0.0.2 for all ports; may be repeated",
    )
    parser.add_argument(
        "--owner",
        metavar="KEY",
        help="public key of the run's owner, if that is not you (jaxtop doctor shows it)",
    )


def open_source(
    arguments: argparse.Namespace, note: Callable[[str], None] = note, *, with_ended: bool = False
) -> Source:
    """Return a source of what the arguments name; `note` receives what the user should know of the choice.

    With `with_ended`, it also finds runs that have ended on this machine.
    """
    way = ways.find(arguments.via, arguments.target)
    if way is None:
        return open_here(arguments, note=note, with_ended=with_ended)
    from jaxtop.sources.source import Unreached  # imports the model: errors and --help must be fast

    open_through = hook("open_through")
    if open_through is None:
        raise UserError("this jaxtop has no feature for relays, which --via and shorthands need")
    if arguments.map:
        raise UserError("--map is for what this machine dials: with --via and shorthands leave it out")
    try:
        listed = hostnames.hosts_in_file(arguments.hostfile) if arguments.hostfile else []
        found: Source = open_through(way.command, (*way.targets, *listed), arguments.owner, way.name, _show)
    except (hostnames.BadHosts, Unreached) as error:
        raise UserError(str(error)) from None
    return found


class TargetNotFound(UserError):
    """No live run has the name; `has_ended` if one had it that has ended."""

    def __init__(self, text: str, *, has_ended: bool) -> None:
        super().__init__(text)
        self.has_ended = has_ended


def open_awaited(
    arguments: argparse.Namespace,
    wait: float | None,
    note: Callable[[str], None] = note,
    *,
    with_ended: bool = False,
) -> Source:
    """Return a source as `open_source` does; where there is no live run, wait for one.

    With `with_ended`, a run that has ended is taken, but only after the wait.
    """
    end = time.monotonic() + (wait or 0.0)
    is_told = False
    while True:
        is_last = time.monotonic() >= end
        try:
            return open_source(arguments, note, with_ended=with_ended and is_last)
        except TargetNotFound as error:
            if is_last:
                hint = "" if wait else "; a run that is just starting: --wait S waits for it"
                raise UserError(f"{error}{hint}", error.status) from None
            if not is_told:
                earlier = "the run of this name has ended: " if error.has_ended else ""
                note(f"{earlier}waiting for {'the next one' if earlier else 'the run to start'}")
                is_told = True
        time.sleep(LOOKS_EVERY_S)


def open_named(names: list[str], owner: str | None = None) -> LiveSource:
    """Return a source that dials what these names mean on this machine; without any, the newest run."""
    return open_here(Namespace(target=names, hostfile=None, owner=owner, map=[]))


def open_here(
    arguments: argparse.Namespace,
    own_id: str = "",
    note: Callable[[str], None] = note,
    *,
    stays_in_job: bool = False,
    with_ended: bool = False,
) -> LiveSource:
    """Return a source that dials the agents from this machine; `own_id` is that of the relay that asks."""
    from jaxtop.sources import (
        LiveSource,
        discovery,  # as above
    )
    from jaxtop.sources.descriptors import raise_limit

    try:
        address_map = discovery.forwards(arguments.map)
        seeds = discovery.seeds(
            arguments.target,
            arguments.hostfile,
            note,
            address_map,
            stays_in_job=stays_in_job,
            with_ended=with_ended,
        )
        owner = arguments.owner
        if owner is not None and not keys.Z85.fullmatch(owner):
            raise UserError("--owner takes a public key: 40 characters, as `jaxtop doctor` shows the owner")
        raise_limit()
        return LiveSource(
            seeds, keys.load(), owner.encode() if owner else None, own_id=own_id, address_map=address_map
        )
    except discovery.NotFound as error:
        raise TargetNotFound(str(error), has_ended=isinstance(error, discovery.RunEnded)) from None
    except (discovery.NoTarget, keys.NoKey) as error:
        raise UserError(str(error)) from None


def _show(line: str) -> None:
    print(legible(line), file=sys.stderr, flush=True)
