"""`python -m tests.accelerators DIR [...]`: a row for each profile and compiled text in folders."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop.base.names import reason
from jaxtop.cli.text.words import aligned
from jaxtop.traces import files
from tests.accelerators import captures, texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.accelerators.theirs import Figures

TEXTS = (".txt", ".hlo")
CAPTURES_HEAD = (
    "PROFILE", "PLATFORM", "KIND", "PROGRAMS", "LAUNCHES", "RUNS OF RAW", "OPERATIONS OF RAW", "TIME",
    "COLLECTIVES", "XPROF: OPERATIONS", "TIME", "COLLECTIVES", "ENDS APART", "UNASSIGNED",
    "LAUNCHES × DEVICES",
)  # fmt: skip
TEXTS_HEAD = ("TEXT", "DEVICES", "WITH GROUPS", "UNREAD", "OPERATIONS", "READ IN", "COLLECTIVES")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.accelerators", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    found = [each for folder in parser.parse_args().folders for each in _files(folder)]
    profiles = [each for each in found if each[0].name.endswith(files.ENDINGS)]
    compiled = [each for each in found if each[0].suffix in TEXTS and texts.is_text(each[0])]
    failed: list[str] = []
    _print(CAPTURES_HEAD, [cells for each in profiles if (cells := _capture(*each, failed))])
    _print(TEXTS_HEAD, [cells for each in compiled if (cells := _text(*each, failed))])
    print(f"{len(profiles)} profiles, {len(compiled)} texts, {len(failed)} cannot be read", *failed, sep="\n")
    return 1 if failed or not found else 0


def _files(folder: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path, str(path.relative_to(folder))


def _print(head: Sequence[str], rows: list[Sequence[str]]) -> None:
    if rows:
        print(*aligned([head, *rows]), "", sep="\n", flush=True)


def _capture(path: Path, name: str, failed: list[str]) -> Sequence[str]:
    try:
        row = captures.row(path, name)
    except files.NoProfile as why:
        failed.append(f"{name} {why}")
        return ()
    except (OSError, *files.UNREADABLE) as error:
        failed.append(f"{name}: {reason(error)}")
        return ()
    raw = "n/a" if row.raw_runs is None else f"{row.runs} of {row.raw_runs}"
    xprof = (row.xprof, "", "") if isinstance(row.xprof, str) else _figures(row.xprof)
    operations, took, collectives = _figures(row.ours)
    if row.raw_operations is not None:
        operations += f" of {row.raw_operations}"
    apart = "n/a" if row.apart_us is None else f"{row.apart_us:.1f} µs"
    return (
        name, row.platform, row.kind, str(row.programs), str(row.launches), raw, operations, took,
        collectives, *xprof, apart, row.unassigned, row.per_launch,
    )  # fmt: skip


def _figures(figures: Figures) -> tuple[str, str, str]:
    collectives = f"{figures.collectives}, {figures.collectives_ms:.3f} ms" if figures.collectives else "none"
    return str(figures.operations), f"{figures.total_ms:.3f} ms", collectives


def _text(path: Path, name: str, failed: list[str]) -> Sequence[str]:
    try:
        row = texts.row(path, name)
    except (OSError, ValueError) as error:
        failed.append(f"{name}: {reason(error)}")
        return ()
    devices = "n/a" if row.devices is None else str(row.devices)
    grouped = f"{row.grouped} of {row.collectives}"
    return name, devices, grouped, str(row.unread), row.operations, f"{row.seconds:.2f} s", row.kinds


if __name__ == "__main__":
    raise SystemExit(main())
