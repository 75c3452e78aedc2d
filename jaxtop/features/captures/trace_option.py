"""The option `--trace` of `jaxtop doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

NAME = "--trace"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        NAME,
        metavar="FILE",
        type=Path,
        help="say what jaxtop sees in a captured profile: *.xplane.pb, *.xplane.pb.gz, or a folder with one",
    )


def is_asked(arguments: argparse.Namespace) -> bool:
    return arguments.trace is not None


def serve(arguments: argparse.Namespace) -> int:
    from jaxtop.features.captures import doctor_trace  # the readers of traces: the checks need none of them

    return doctor_trace.show(arguments.trace, is_json=arguments.json)
