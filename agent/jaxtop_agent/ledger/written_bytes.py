"""How many bytes this process has written, to files and to object stores: for the size of checkpoints."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

# TensorStore counts what it writes by driver. Its other drivers write files, which the kernel counts.
_METRICS = "/tensorstore/kvstore/"
_OBJECT_STORES = ("gcs", "gcs_grpc", "s3")


def written_bytes() -> int | None:
    """Return how many bytes this process has handed to write calls or object stores; None if unknown."""
    try:
        text = Path("/proc/self/io").read_text("ascii")
    except OSError:
        return None
    fields = dict(line.split(": ", 1) for line in text.splitlines())
    return int(fields["wchar"]) + _sent_to_stores() if "wchar" in fields else None


def _sent_to_stores() -> int:
    """Return how many bytes TensorStore has sent to object stores; the kernel does not count sockets.

    It is only asked if the script has loaded it. That takes some microseconds.
    """
    collect: Any = getattr(sys.modules.get("tensorstore"), "experimental_collect_matching_metrics", None)
    if collect is None:
        return 0
    found = 0
    try:
        for store in _OBJECT_STORES:
            for metric in collect(f"{_METRICS}{store}/bytes_written"):
                found += sum(int(each["value"]) for each in metric["values"])
    except Exception:  # its name says that it is experimental: then only files count
        return found
    return found
