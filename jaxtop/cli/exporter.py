"""`jaxtop exporter`: follow a run, and serve its figures to Prometheus and to scripts over HTTP."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop.cli import settings, targets, terminal
from jaxtop.cli.errors import UserError
from jaxtop.cli.http_server import Page, Protection, Server, address
from jaxtop.cli.processes import end_with_sigterm
from jaxtop.clock import steady
from jaxtop.export import to_json
from jaxtop.export.findings import as_value
from jaxtop.export.prometheus import DETAILS, PROGRAM, exposition, preferred
from jaxtop.model import Cluster, State, findings, host_views

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

    from jaxtop.sources import Source

PORT = 9410
POLL = 0.25
# Seconds in which all clients get the same page.
SHARED_S = 1.0
JSON, TEXT = "application/json", "text/plain; charset=utf-8"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    targets.add_arguments(parser)
    parser.add_argument(
        "--listen",
        default=f"127.0.0.1:{PORT}",
        metavar="ADDRESS",
        help=f"address to serve on (default: 127.0.0.1:{PORT})",
    )
    parser.add_argument(
        "--detail",
        choices=DETAILS,
        default=PROGRAM,
        help="bounds the number of series: figures of runs, hosts, devices, or programs too (default)",
    )
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate, to serve with TLS")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="the certificate's key")
    parser.add_argument("--auth", type=Path, metavar="FILE", help="file with lines of user:password")


def main(arguments: argparse.Namespace) -> int:
    try:
        import prometheus_client  # noqa: F401 - the error must come before anything is served
    except ImportError:
        raise UserError("exporter needs prometheus-client: pip install 'jaxtop[exporter]'") from None
    host, port = address(arguments.listen, PORT)
    watched = Watched(Cluster(tuning=settings.load().tuning))
    protection = Protection(arguments.tls_cert, arguments.tls_key, arguments.auth)
    source = targets.open_source(arguments)
    try:
        server = Server(host, port, pages(watched, arguments.detail), protection)
        end_with_sigterm()
        terminal.collect_rarely()
        print(f"jaxtop: serves {server.url}/metrics", file=sys.stderr, flush=True)
        with server:
            while True:
                watched.take(source)
    except KeyboardInterrupt:
        return 0
    finally:
        source.close()


class Moment:
    """The cluster at one time, with its pages; each page is written once, on the first request."""

    def __init__(self, cluster: Cluster, now: float) -> None:
        self._now = now
        self._cluster = cluster
        self._pages: dict[str, Page] = {}
        self._lock = threading.Lock()

    def is_current(self, now: float) -> bool:
        """Return whether clients still get these pages: for a second, and while one is being written."""
        return now - self._now < SHARED_S or self._lock.locked()

    def page(self, name: str, write: Callable[[Cluster, float], Page]) -> Page:
        with self._lock:
            if name not in self._pages:
                self._pages[name] = write(self._cluster, self._now)
            return self._pages[name]


class Watched:
    """A cluster that one thread folds. Other threads write pages from copies, so the fold does not wait."""

    def __init__(self, cluster: Cluster, clock: Callable[[], float] = steady) -> None:
        self._cluster = cluster
        self._clock = clock
        self._lock = threading.Lock()
        self._moment: Moment | None = None
        self._notes: list[str] = []

    def take(self, source: Source) -> None:
        """Fold what arrives within a moment."""
        frames = source.poll(POLL)
        with self._lock:
            for frame in frames:
                self._cluster.feed(frame)
            now = self._clock()
            self._cluster.check_if_silent(now)
            self._notes = source.notes
            if self._moment is not None and not self._moment.is_current(now):
                self._moment = None  # frees the memory of the copy
        time.sleep(0)  # a thread that waits for the lock gets it now

    def page(self, name: str, write: Callable[[Cluster, float], Page]) -> Page:
        """Return a page, the same to all clients of the moment."""
        with self._lock:
            now = self._clock()
            if self._moment is None or not self._moment.is_current(now):
                self._moment = Moment(self._cluster.frozen(), now)
            moment = self._moment
        return moment.page(name, write)

    def health(self) -> Page:
        """Return 200 while a process is live, else 503; it never waits for another page."""
        with self._lock:
            states = [view.state for view in host_views(self._cluster, self._clock())]
            notes = self._notes
        live = states.count(State.LIVE)
        words = f"{live} of {len(states)} processes are live"
        return Page("\n".join([words, *notes, ""]).encode(), TEXT, 200 if live else 503)


def pages(watched: Watched, detail: str) -> Mapping[str, Callable[[str], Page]]:
    """Return what is served, by path."""

    def metrics(accept: str) -> Page:
        form = preferred(accept)
        return watched.page(
            f"metrics {form}", lambda cluster, now: Page(*exposition(cluster, now, form, detail))
        )

    def found(cluster: Cluster, now: float) -> Page:
        document = {"schema": 1, "findings": [as_value(each, now) for each in findings(cluster)]}
        return Page(json.dumps(document, indent=2).encode() + b"\n", JSON)

    def snapshot(cluster: Cluster, now: float) -> Page:
        return Page(to_json(cluster, now).encode(), JSON)

    return {
        "/metrics": metrics,
        "/api/snapshot": lambda _: watched.page("snapshot", snapshot),
        "/api/findings": lambda _: watched.page("findings", found),
        "/healthz": lambda _: watched.health(),
    }
