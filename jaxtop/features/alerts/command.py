"""`jaxtop watch`: follow a run, and send alerts when findings start and end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jaxtop.base.clock import steady
from jaxtop.cli import settings, targets, terminal
from jaxtop.cli.errors import UserError
from jaxtop.cli.machine.processes import end_with_sigterm
from jaxtop.cli.reading.complaints import complaints
from jaxtop.cli.record import has_ended
from jaxtop.cli.text.words import legible, note
from jaxtop.model import Cluster, Severity, newest_hosts, runs

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from jaxtop.features.alerts.senders import Sender
    from jaxtop.model.findings.alerts import AlertBook
    from jaxtop.sources import Source

NOTHING_REACHED = 2
POLL = 0.25
# Seconds in which at least one process must answer; after the end of the run, for the last messages on their
# way; and for the alerts that are still to be delivered.
REACHED_WITHIN, LINGER, DELIVERY = 30.0, 3.0, 40.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    targets.add_arguments(parser)
    parser.add_argument(
        "--exec", metavar="CMD", help="shell command to run for each alert, which it reads as JSON"
    )
    parser.add_argument("--webhook", metavar="URL", help="address to post each alert to, as JSON")
    parser.add_argument(
        "--form", choices=settings.FORMS, help="form of what is posted to the webhook (default: plain)"
    )
    parser.add_argument(
        "--severity", choices=settings.ALERTING, help="least severity of an alert (default: critical)"
    )
    parser.add_argument("--test", action="store_true", help="send one test alert and end; exit status 0 or 1")


def main(arguments: argparse.Namespace) -> int:
    from jaxtop.features.alerts import senders  # heavy: errors above must be fast
    from jaxtop.model.findings.alerts import AlertBook

    loaded = settings.load()
    given = {
        name: getattr(arguments, name) or loaded.get(f"alerts.{name}")
        for name in ("exec", "webhook", "form", "severity")
    }
    receivers: list[Sender] = []
    if given["webhook"]:
        receivers.append(senders.webhook(given["webhook"], given["form"] or settings.FORMS[0]))
    if given["exec"]:
        receivers.append(senders.command(given["exec"]))
    if arguments.test:
        return _test(receivers)
    source = targets.open_source(arguments)
    try:
        end_with_sigterm()
        terminal.collect_rarely()
        book = AlertBook(Severity(given["severity"] or settings.ALERTING[0]))
        follow(source, Cluster(tuning=loaded.tuning, is_drawn=False), book, receivers)
    finally:
        source.close()
        _finish(receivers)
    return 0


def _test(receivers: list[Sender]) -> int:
    from jaxtop.features.alerts.document import sample_alert

    if not receivers:
        raise UserError("--test needs --exec, --webhook, or [alerts] in config.toml")
    for each in receivers:
        each.put(sample_alert(steady()))
    return 1 if _finish(receivers) else 0


def _finish(receivers: list[Sender]) -> int:
    """Wait for what is to be delivered; return how many alerts were not."""
    until = time.monotonic() + DELIVERY
    return sum(each.finish(max(0.0, until - time.monotonic())) for each in receivers)


def follow(
    source: Source,
    cluster: Cluster,
    book: AlertBook,
    receivers: list[Sender],
    clock: Callable[[], float] = steady,
) -> None:
    """Send alerts until the run has ended or the user interrupts."""
    begun, ended_at, is_reached = clock(), None, False
    try:
        while ended_at is None or clock() - ended_at < LINGER:
            for frame in source.poll(POLL):
                cluster.feed(frame)
            now = clock()
            cluster.check_if_overdue(now)
            for alert in book.changes(cluster, now):
                print(f"{time.strftime('%H:%M:%S', time.localtime(alert.at))} {alert.title}", flush=True)
                for each in receivers:
                    each.put(alert)
            ended_at = (ended_at or now) if has_ended(cluster, now) else None
            if not is_reached and any(host.hello for host in newest_hosts(cluster)):
                is_reached = True
                names = ", ".join(run.name or run.id for run in runs(cluster, now))
                note(f"watching {names}")
            if not is_reached and now - begun >= REACHED_WITHIN:
                why = "; ".join(map(legible, complaints(cluster, source, now)))
                raise UserError(why or "no process was found", NOTHING_REACHED)
    except KeyboardInterrupt:
        return
    note("the run has ended")
