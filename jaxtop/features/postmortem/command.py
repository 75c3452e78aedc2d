"""`jaxtop postmortem`: say what processes were like when they failed, from their black boxes."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop.cli import replay, terminal
from jaxtop.cli.errors import UserError
from jaxtop.cli.text.formats import JSON, add_formats
from jaxtop.cli.text.words import legible
from jaxtop.features.postmortem import kernel_log
from jaxtop.model import host_views
from jaxtop.model.findings.postmortem import postmortem_of, postmortems
from jaxtop.model.liveness import State
from jaxtop.model.stalls.crashes import ending, exit_status, was_stuck
from jaxtop.model.stalls.native import wait_text
from jaxtop.model.stalls.stacks import main_place, place_text

if TYPE_CHECKING:
    import argparse

    from jaxtop.model import Cluster, Host
    from jaxtop.model.findings.postmortem import Postmortem

# The most processes that are described in full if none is chosen: most fail for the same reason.
MOST_IN_FULL = 4
FORMATS = ("text", JSON)
# The app opens on the last figures: from the goodbye on, those of the process are no longer current.
BEFORE_S = 0.01


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "box", nargs="+", type=Path, metavar="BOX", help="black boxes, other recordings, or folders of them"
    )
    parser.add_argument(
        "--process", type=int, metavar="N", help="describe this process only, also if it did not fail"
    )
    form = add_formats(parser, FORMATS)
    form.add_argument(
        "--open", action="store_true", help="open the app just before the end of the first that failed"
    )


def main(arguments: argparse.Namespace) -> int:
    if arguments.open:
        terminal.need("for text leave out --open")
    with replay.opened(arguments.box) as (session, span):
        cluster = replay.with_history(session, span, span[1])
        found = _chosen(cluster, span[1], arguments.process)
        if arguments.open:
            at = min((each.at for each in found), default=span[1])
            replay.show(session, max(span[0], at - BEFORE_S), is_playing=False)
            return 0
        _print(cluster, span[1], found, arguments)
        replay.print_notes(session)
    return 0


def _chosen(cluster: Cluster, at: float, process: int | None) -> list[Postmortem]:
    return [replace(each, kernel=_kernel(each)) for each in _found(cluster, at, process)]


def endings(cluster: Cluster, at: float) -> list[str]:
    """Return lines that say how processes ended, or how they are, if none has a post-mortem."""
    views = host_views(cluster, at)
    lines = [] if any(was_stuck(view.host) for view in views) else ["no process failed"]
    for view in views:
        host, bye = view.host, view.host.bye
        how = f"is {view.state.value}"
        if bye is not None:
            how = f"{ending(bye, host.process_count)}, exit status {exit_status([host])}"
        lines.append(f"  {host.label} {how}{_hung_at(host)}")
    return lines


def _hung_at(host: Host) -> str:
    """Return where a process was that its agent has ended, and its wait; empty for others."""
    if not was_stuck(host):
        return ""
    place, wait = main_place(host.stacks), wait_text(host.stacks.telling)
    known = [f"was at {place_text(place)}"] if place is not None else []
    known += [f"waited {wait}"] if wait else []
    return f"; it {' and '.join(known)}" if known else ""


def _kernel(found: Postmortem) -> str:
    return kernel_log.about(found.host, found.at) if found.state is State.DIED else ""


def _found(cluster: Cluster, at: float, process: int | None) -> list[Postmortem]:
    if process is None:
        return postmortems(cluster, at)
    views = [view for view in host_views(cluster, at) if view.host.process_index == process]
    if not views:
        raise UserError(f"there is no process {process} in these recordings")
    return [postmortem_of(cluster, view.host, view.state) for view in views]


def _print(cluster: Cluster, at: float, found: list[Postmortem], arguments: argparse.Namespace) -> None:
    from jaxtop.features.postmortem import document as export  # imported late: errors above must be fast
    from jaxtop.model.findings.postmortem_words import headline

    if arguments.format == JSON:
        sys.stdout.write(export.to_json(found))
        return
    if not found:
        print(*map(legible, endings(cluster, at)), sep="\n")
        return
    print("\n".join(export.to_text(each) for each in found[:MOST_IN_FULL]), end="")
    for each in found[MOST_IN_FULL:]:
        print(legible(headline(each)))
    if len(found) > MOST_IN_FULL:
        print("describe one of them with --process N, or all of them with --json")
