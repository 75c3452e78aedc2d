"""`jaxtop relay`: pass the frames of agents on, to one viewer through a command or to many at an address."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop.base import keys
from jaxtop.base.clock import steady
from jaxtop.cli import targets
from jaxtop.cli.errors import UserError
from jaxtop.cli.machine.processes import end_with_sigterm
from jaxtop.cli.serving.listening import address
from jaxtop.cli.text.words import legible, note
from jaxtop.features.relay.relay_end import RelayEnd
from jaxtop.features.relay.relay_listener import ListeningRelay, new_id
from jaxtop.model.host import UnmetAddress
from jaxtop.sources import discovery
from jaxtop.transport import FIRST_PORT
from jaxtop.transport.hub import Hub

if TYPE_CHECKING:
    import argparse

    from jaxtop.features.relay.agent_frames import LastFramesByAgent
    from jaxtop.features.relay.stream import Open
    from jaxtop.sources import Source

POLL_S = 0.05
# What is served is said once everything has answered, or after this time; then at most this often, if it
# changes.
SAY_WITHIN_S, SAY_EVERY_S = 10.0, 10.0
# More targets that do not answer are only counted.
MAX_UNMET_SAID = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    targets.add_own_arguments(parser)
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument(
        "--stdio",
        action="store_true",
        help="speak with a viewer over standard input and output; `--via` starts this on the other side",
    )
    how.add_argument(
        "--listen",
        metavar="ADDRESS",
        help=f"serve all agents behind one HOST:PORT, which viewers attach to (default: a free port from "
        f"{FIRST_PORT} up on 127.0.0.1)",
    )


def main(arguments: argparse.Namespace) -> int:
    if arguments.listen is not None:
        return _listen(arguments)
    if sys.stdin.isatty() or os.path.samestat(os.fstat(sys.stdin.fileno()), Path(os.devnull).stat()):
        raise UserError(
            "relay --stdio speaks with another jaxtop: run `jaxtop attach --via 'ssh THIS_HOST'` on your side"
        )

    def open_source(wanted: Open) -> Source:
        _use(wanted, arguments)
        # `slurm://JOB` runs this in the job, and means its run.
        return targets.open_here(arguments, stays_in_job=True)

    RelayEnd(sys.stdin.fileno(), sys.stdout.fileno(), open_source, UserError).run()
    return 0


def _use(wanted: Open, arguments: argparse.Namespace) -> None:
    """Add what the viewer wants to follow to the arguments, which it cannot change."""
    is_fixed = bool(arguments.target or arguments.hostfile)
    if is_fixed and wanted.targets and list(wanted.targets) != arguments.target:
        raise UserError("the relay there follows one fixed TARGET: leave yours out")
    if arguments.owner and wanted.owner not in (None, arguments.owner):
        raise UserError("the relay there follows one fixed --owner: leave yours out")
    if not is_fixed:
        arguments.target = list(wanted.targets)
    arguments.owner = arguments.owner or wanted.owner


def _listen(arguments: argparse.Namespace) -> int:
    own_id = new_id()
    try:
        hub = Hub(keys.load(), keys.authorized)
    except keys.NoKey as error:
        raise UserError(str(error)) from None
    source: Source | None = None
    try:
        end_with_sigterm()
        at = _bind(hub, arguments.listen)
        source = targets.open_here(arguments, own_id)
        note(f"listens on {at}: `jaxtop attach {at}` shows what it serves")
        relay, served = ListeningRelay(source, hub, own_id), RelayStatusLine(steady())
        while True:
            relay.turn(POLL_S)
            for line in served.changes(relay.outlet.latest, steady(), is_settled=source.is_settled):
                note(line)
    except KeyboardInterrupt:
        return 0
    finally:
        hub.close()
        if source is not None:
            source.close()


def _bind(hub: Hub, listen: str) -> str:
    """Listen on an address, and return it with its port."""
    host, port = address(listen, 0)
    try:
        literal = discovery.resolved(host)
        bound = hub.bind(literal, port, 1) if port else hub.bind(literal, FIRST_PORT)
    except discovery.NoTarget as error:
        raise UserError(f"--listen {listen}: {error}") from None
    except OSError as error:
        why = error.strerror or ("the port is in use" if port else "all ports are in use")
        raise UserError(f"cannot listen on {legible(listen)}: {why}") from None
    return discovery.endpoint(literal, bound)


class RelayStatusLine:
    """What a relay says about the agents behind it."""

    def __init__(self, now: float) -> None:
        self._begun, self._due = now, now
        self._said: tuple[int, int] | None = None
        self._unmet: dict[str, str] = {}

    def changes(self, latest: LastFramesByAgent, now: float, *, is_settled: bool) -> list[str]:
        """Return lines about what is served, if it is time for them and they are new."""
        if now < self._due or not (is_settled or now - self._begun > SAY_WITHIN_S):
            return []
        self._due = now + SAY_EVERY_S
        lines = []
        up, known = latest.up, len(latest)
        if (up, known) != self._said:
            self._said = up, known
            others = f"; {known - up:,} more cannot be reached or have ended" if known > up else ""
            lines.append(f"serves {up:,} processes{others}" if known else "nothing is behind this relay yet")
        unmet = {link.endpoint: UnmetAddress(link.endpoint, link).why for link in latest.unmet()}
        new = [f"{name}: {why}" for name, why in unmet.items() if self._unmet.get(name) != why]
        self._unmet = unmet
        more = [f"and {len(new) - MAX_UNMET_SAID} more targets do not answer"]
        return lines + new[:MAX_UNMET_SAID] + (more if len(new) > MAX_UNMET_SAID else [])
