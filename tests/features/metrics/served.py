"""Exported clusters over HTTP, as a scraper gets them."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections import Counter
from typing import TYPE_CHECKING, Any

from jaxtop.cli.serving.http_server import HttpServer
from jaxtop.cli.serving.listening import Protection
from jaxtop.cli.serving.watched_cluster import WatchedCluster
from jaxtop.features.metrics.command import pages
from tests import patience
from tests.made.clusters import NOW

if TYPE_CHECKING:
    from jaxtop.model import Cluster

OPEN = Protection()


def served(made: Cluster, detail: str = "program", protection: Protection = OPEN) -> HttpServer:
    """Serve the pages of the exporter for this cluster."""
    return HttpServer("127.0.0.1", 0, pages(WatchedCluster(made, lambda: NOW), detail), protection)


def get(url: str, accept: str = "", authorization: str = "", **more: Any) -> tuple[int, str, str]:
    """Return the status, the type and the text of an answer."""
    request = urllib.request.Request(url, headers={"Accept": accept, "Authorization": authorization})
    try:
        with urllib.request.urlopen(request, timeout=patience.left(), **more) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


class Frames:
    """A source whose first poll returns these frames."""

    is_settled = True

    def __init__(self, *frames, notes=()):
        self.frames, self.notes, self.rejected = list(frames), list(notes), Counter()

    def poll(self, _timeout):
        arrived, self.frames = self.frames, []
        return arrived
