"""The process behind `jaxtop.live()`: it follows a run, and writes its summary as lines of JSON."""

from __future__ import annotations

import json
import select
import sys
from typing import TYPE_CHECKING

from jaxtop.base.clock import steady
from jaxtop.cli import settings, targets, terminal
from jaxtop.cli.errors import UserError
from jaxtop.cli.machine.processes import die_with_parent
from jaxtop.cli.reading.complaints import complaints
from jaxtop.cli.reading.gather import watch
from jaxtop.cli.record import has_ended
from jaxtop.features.notebook.summary import summary
from jaxtop.model import Cluster, newest_hosts

if TYPE_CHECKING:
    from jaxtop.sources import Source

REACHED_WITHIN = 30.0


def main(every: float, wanted: list[str]) -> int:
    """Write a line every this many seconds, until the run ends or standard input does."""
    try:
        source = targets.open_named(wanted)
        try:
            _follow(source, Cluster(tuning=settings.load().tuning), every)
        finally:
            source.close()
    except UserError as error:
        _write(error=str(error))
        return error.status
    return 0


def _follow(source: Source, cluster: Cluster, every: float) -> None:
    begun = steady()
    while not select.select([sys.stdin], [], [], 0)[0]:  # it ends with the process that shows the summary
        if _is_reached(cluster):
            watch(source, cluster, every)
        else:
            watch(source, cluster, every, lambda: _is_reached(cluster))
        now = steady()
        cluster.check_if_overdue(now)
        if _is_reached(cluster):
            found = summary(cluster, now)
            _write(text=found.to_text(), html=found.to_html(), gist=found.gist)
        elif now - begun > REACHED_WITHIN:
            raise UserError("; ".join(complaints(cluster, source, now)) or "no process was found")
        if has_ended(cluster, now):
            return


def _is_reached(cluster: Cluster) -> bool:
    return any(host.hello and host.pulse_at is not None for host in newest_hosts(cluster))


def _write(**fields: str) -> None:
    print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    die_with_parent()
    terminal.collect_rarely()
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
