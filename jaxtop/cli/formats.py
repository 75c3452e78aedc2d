"""The formats in which commands print a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaxtop.model import Cluster

JSON = "json"
FORMATS = (JSON, "csv", "openmetrics")


def written(form: str, cluster: Cluster, at: float) -> str:
    """Return the cluster at a time in one of the formats, with a newline at its end."""
    from jaxtop.devbench import saved
    from jaxtop.export import FORMATS as WRITERS  # imported late: errors of the command line must be fast
    from jaxtop.export import to_json

    text = to_json(cluster, at, saved.last()) if form == JSON else WRITERS[form](cluster, at)
    return text.rstrip("\n") + "\n"
