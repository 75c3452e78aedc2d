"""The formats in which commands print a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from jaxtop.model import Cluster
    from jaxtop.store.probe_figures import Probe

JSON = "json"
FORMATS = (JSON, "csv", "openmetrics")


def add_formats(
    parser: argparse.ArgumentParser, formats: Sequence[str], printed: str = ""
) -> argparse._MutuallyExclusiveGroup:
    """Add --format, of which the first format is the default, and for each format a flag of its name.

    Return the group of these arguments, of which only one can be given.

    `printed` says what is printed, if the command does not always print it: then there is no default.
    """
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--format",
        choices=formats,
        default=None if printed else formats[0],
        help=f"output format{printed} (default: {formats[0]})",
    )
    for each in formats:
        form.add_argument(
            f"--{each}", dest="format", action="store_const", const=each, help=f"the same as --format {each}"
        )
    return form


def written(form: str, cluster: Cluster, at: float, probe: Probe | None = None) -> str:
    """Return the cluster at a time in one of the formats, with a newline at its end.

    The last probe of this machine belongs to live figures only: a recording may come from another one.
    """
    from jaxtop.export import FORMATS as WRITERS  # imported late: errors of the command line must be fast
    from jaxtop.export import to_json

    text = to_json(cluster, at, probe) if form == JSON else WRITERS[form](cluster, at)
    return text.rstrip("\n") + "\n"
