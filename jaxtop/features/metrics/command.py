"""`jaxtop exporter`: follow a run, and hand its figures to Prometheus, scripts and OpenTelemetry."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxtop.cli import settings, targets, terminal
from jaxtop.cli.errors import UserError
from jaxtop.cli.machine.processes import end_with_sigterm
from jaxtop.cli.serving.http_server import HttpRequest, HttpServer, Page
from jaxtop.cli.serving.listening import Protection, add_tls_arguments, address, is_port
from jaxtop.cli.serving.watched_cluster import WatchedCluster
from jaxtop.cli.text.formats import JSON as JSON_FORMAT
from jaxtop.cli.text.formats import written
from jaxtop.cli.text.words import note, number
from jaxtop.export.findings import as_value
from jaxtop.export.samples import DETAILS, HOST, PROGRAM
from jaxtop.features.metrics.boards import BOARDS
from jaxtop.features.metrics.prometheus import exposition, preferred
from jaxtop.features.metrics.prometheus import targets as machines
from jaxtop.model import Cluster, reported_findings
from jaxtop.store import saved_probe

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from jaxtop.cli.serving.http_server import Pages
    from jaxtop.features.metrics.otlp.push import Push

PORT = 9410
JSON, TEXT = "application/json", "text/plain"
# Ports of targets that a client may ask for at once.
MAX_PORTS = 16
_INTERVAL = number("between 1 and 3600 seconds", 1, 3600)


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
    add_tls_arguments(parser)
    parser.add_argument("--auth", type=Path, metavar="FILE", help="file with lines of user:password")
    parser.add_argument(
        "--otlp",
        metavar="URL",
        help="also send metrics, events and findings to this collector of OpenTelemetry, "
        "such as http://HOST:4318 or grpc://HOST:4317; https and grpcs encrypt",
    )
    parser.add_argument(
        "--otlp-detail",
        choices=DETAILS,
        default=HOST,
        help="as --detail, for the collector, where a series costs ten times as much (default: host)",
    )
    parser.add_argument(
        "--otlp-interval",
        type=_INTERVAL,
        default=15.0,
        metavar="S",
        help="seconds between two messages to the collector (default: 15)",
    )
    printed = parser.add_mutually_exclusive_group()
    printed.add_argument("--dashboard", choices=BOARDS, help="print a dashboard for Grafana, as JSON")
    printed.add_argument(
        "--alert-rules", action="store_true", help="print alert rules for Prometheus, as YAML"
    )


def main(arguments: argparse.Namespace) -> int:
    if arguments.dashboard or arguments.alert_rules:
        print(_printed(arguments.dashboard), end="")
        return 0
    host, port = address(arguments.listen, PORT)
    watched = WatchedCluster(Cluster(tuning=settings.load().tuning, is_drawn=False))
    push = _push(watched, arguments)
    protection = Protection(arguments.tls_cert, arguments.tls_key, arguments.auth)
    source = targets.open_source(arguments)
    try:
        server = HttpServer(host, port, pages(watched, arguments.detail), protection)
        end_with_sigterm()
        terminal.collect_rarely()
        note(f"serves {server.url}/metrics")
        with ExitStack() as running:
            running.enter_context(server)
            if push is not None:
                running.enter_context(push)
            while True:
                watched.take(source)
    except KeyboardInterrupt:
        return 0
    finally:
        source.close()


def _printed(dashboard: str | None) -> str:
    if dashboard:
        from jaxtop.features.metrics.boards import grafana  # only this needs it

        return grafana.dashboard(BOARDS[dashboard])
    from jaxtop.features.metrics import alert_rules  # only this needs it

    return alert_rules.to_yaml()


def _push(watched: WatchedCluster, arguments: argparse.Namespace) -> Push | None:
    if arguments.otlp is None:
        return None
    try:
        from jaxtop.features.metrics.otlp import (  # optional: the extra `otlp` installs what they import
            collector,
        )
        from jaxtop.features.metrics.otlp import push as otlp
    except ImportError:
        raise UserError("--otlp needs the OpenTelemetry SDK: pip install 'jaxtop[otlp]'") from None
    return otlp.Push(
        watched, collector.OtlpCollector(arguments.otlp), arguments.otlp_detail, arguments.otlp_interval
    )


def pages(watched: WatchedCluster, detail: str) -> Pages:
    """Return what is served, by path."""

    def metrics(asked: HttpRequest) -> Page:
        form = preferred(asked.accept)
        return watched.page(
            f"metrics {form}",
            lambda cluster, now: exposition(cluster, now, form, detail),
            asked.reads_gzip,
        )

    def shared(name: str, write: Callable[[Cluster, float], str]) -> Callable[[HttpRequest], Page]:
        return lambda asked: watched.page(
            name, lambda cluster, now: ([write(cluster, now).encode()], JSON), asked.reads_gzip
        )

    def http_sd(asked: HttpRequest) -> Page:
        ports = asked.query.get("port", [])
        if not 0 < len(ports) <= MAX_PORTS or not all(map(is_port, ports)):
            return Page(b"name the ports to scrape, such as /http_sd?port=9100&port=9400\n", TEXT, 400)
        return Page(_json(machines(*watched.copy(), ports)).encode(), JSON)

    return {
        "/metrics": metrics,
        "/http_sd": http_sd,
        "/api/snapshot": shared(
            "snapshot", lambda cluster, now: written(JSON_FORMAT, cluster, now, saved_probe.last())
        ),
        "/api/findings": shared("findings", _found),
        "/healthz": lambda _: watched.health(),
    }


def _found(cluster: Cluster, now: float) -> str:
    return _json({"schema": 1, "findings": [as_value(each, now) for each in reported_findings(cluster)]})


def _json(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"
