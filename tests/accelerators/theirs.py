"""The same figures from XProf's own converters, where `xprof` is installed: `pip install 'jaxtop[xprof]'`."""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

MISSING = "xprof is not installed"
LONGEST_S = 300
# XProf's categories of operations.
COLLECTIVE = re.compile(r"(async-)?(all-|ragged-all|reduce-scatter|collective-|megascale).*")
CONTAINERS = frozenset({"while", "conditional", "call", "IDLE"})
# In a process of its own: it prints on standard error, and a profile that it cannot convert may end it.
_CONVERT = """
import sys
from xprof.convert import raw_to_tool_data
data, _ = raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], "hlo_stats", {})
sys.stdout.buffer.write(data if isinstance(data, bytes) else data.encode())
"""


class Figures(NamedTuple):
    """The operations on the devices of a profile; times in milliseconds."""

    operations: int
    total_ms: float
    collectives: int
    collectives_ms: float


def figures(path: Path) -> Figures | str:
    """Return XProf's figures of a profile, or why there are none."""
    if importlib.util.find_spec("xprof") is None:
        return MISSING
    with tempfile.TemporaryDirectory() as folder:  # it writes files beside the profile
        copy = Path(folder) / "host.xplane.pb"
        raw = path.read_bytes()
        copy.write_bytes(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
        words = [sys.executable, "-c", _CONVERT, str(copy)]
        try:
            done = subprocess.run(words, capture_output=True, timeout=LONGEST_S, check=True)
            return summed(rows(json.loads(done.stdout)))
        except (subprocess.SubprocessError, ValueError) as error:
            return f"cannot convert it: {type(error).__name__}"


def rows(table: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of one of XProf's tables by the names of its columns."""
    names = [column["id"] for column in table["cols"]]
    return [dict(zip(names, (cell["v"] for cell in row["c"]), strict=True)) for row in table["rows"]]


def summed(table: list[dict[str, Any]]) -> Figures:
    """Return the figures of all operations but those that only contain others."""
    found = [each for each in table if each["category"] not in CONTAINERS]
    met = [each for each in found if COLLECTIVE.fullmatch(each["category"])]
    return Figures(*_sums(found), *_sums([each for each in met if "-start" not in each["category"]]))


def _sums(found: list[dict[str, Any]]) -> tuple[int, float]:
    count = sum(int(each["occurrences"]) for each in found)
    return count, sum(each["total_self_time"] for each in found) / 1000
