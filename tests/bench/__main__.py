"""`python -m tests.bench [ROW ...] [--quick] [--json FILE]`."""

from __future__ import annotations

import argparse
import compileall
import json
import os
import platform
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jaxtop
import jaxtop_agent
from tests.bench import frame
from tests.bench.rows import ROWS

FOREIGN = ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME")


def main() -> int:
    arguments = _arguments()
    rows = [row for row in ROWS if not arguments.rows or row.name in arguments.rows]
    # As an installation has them: compiling them on each start would count as a cost of jaxtop.
    for package in (jaxtop, jaxtop_agent):
        compileall.compile_dir(package.__path__[0], quiet=1)
    machine = _machine()
    print(", ".join(f"{name} {value}" for name, value in machine.items()))
    taken: list[dict[str, Any]] = []
    failures = 0
    with tempfile.TemporaryDirectory() as home:
        for name in [*FOREIGN, *(name for name in os.environ if name.startswith("JAXTOP"))]:
            os.environ.pop(name, None)
        os.environ["HOME"] = home
        setting = frame.Setting(arguments.quick, Path(home))
        for row in rows:
            print(f"\n{row.name}: {row.what}\n  control: {row.control}\n  spread: {row.spread}", flush=True)
            started = time.monotonic()
            figures: list[frame.Figure] = []
            try:
                figures.extend(row.measure(setting))
            except Exception as error:  # a failed row must not stop the others
                failures += 1
                print(f"  FAILED: {type(error).__name__}: {error}")
            if figures:
                print(frame.table(figures))
            print(f"  ({time.monotonic() - started:.0f} s)", flush=True)
            taken.append(frame.as_json(row, figures))
    if arguments.json:
        document = {"machine": machine, "quick": arguments.quick, "rows": taken}
        arguments.json.write_text(json.dumps(document, indent=2) + "\n")
    return 1 if failures else 0


def _arguments() -> argparse.Namespace:
    listed = "\n".join(f"  {row.name:<10} {row.what}" for row in ROWS)
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description="What jaxtop costs, each figure beside its control and its budget.",
        epilog=f"rows:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help="the rows to measure; all by default")
    parser.add_argument("--quick", action="store_true", help="a first impression within a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file, too")
    arguments = parser.parse_args()
    unknown = set(arguments.rows) - {row.name for row in ROWS}
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    return arguments


def _machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "jax": version("jax"),
        "jaxtop": version("jaxtop"),
    }


if __name__ == "__main__":
    sys.exit(main())
