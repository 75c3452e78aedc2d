"""`jaxtop plan --compile`: exact figures for each candidate, from a compilation in a process of its own."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop.base.units import in_bytes
from jaxtop.cli.errors import UserError
from jaxtop.cli.text.words import duration

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from jaxtop.base.meshes import Axes
    from jaxtop.features.planning.model.plan import Candidate, CompiledCandidate, ShardingRule, Today

    Key = tuple[Axes, tuple[ShardingRule, ...]]

LIMIT = 60.0
# The newest programs of one name that are looked at, and the largest file that is read.
MAX_FILES, LARGEST_FILE = 8, 1 << 30
DUMPED = re.compile(r"jax_ir(\d+)_(.+)_compile\.mlir")
HOW = "start the run with JAX_DUMP_IR_TO=FOLDER, and name that folder"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    compiling = parser.add_argument_group("exact figures by compiling")
    compiling.add_argument(
        "--compile",
        type=_existing,
        metavar="PROGRAM",
        help="compile the step for each candidate: its lowered text, or the folder of JAX_DUMP_IR_TO",
    )
    compiling.add_argument(
        "--compile-limit",
        type=duration,
        default=LIMIT,
        metavar="S",
        help=f"seconds that compiling one candidate may take (default: {LIMIT:.0f})",
    )


def _existing(text: str) -> Path:
    """Return the file or folder of the program's text; errors come before a run is measured."""
    if find_spec("jax") is None:
        raise UserError("--compile needs JAX: pip install 'jaxtop[jax]'")
    path = Path(text).expanduser()
    if why := _why_not(path):
        raise UserError(f"--compile: {why}; {HOW}")
    return path


def _why_not(path: Path) -> str:
    """Return why a path can have no program; an empty text if it may have one."""
    if path.is_file():
        return "" if path.stat().st_size else f"{path} is empty"
    if path.is_dir():
        has_any = any(DUMPED.fullmatch(each.name) for each in path.iterdir())
        return "" if has_any else f"no program in {path}"
    return f"{path} is neither a file nor a folder" if path.exists() else f"no file or folder {path}"


def compile_all(
    today: Today, candidates: Sequence[Candidate], text: Path, limit_s: float
) -> dict[Key, CompiledCandidate]:
    """Return what compiling the step's program gave for each candidate."""
    files = _files(text, today)
    from jaxtop.features.planning.compiler import Compiler  # imported late: errors above must be fast
    from jaxtop.features.planning.messages import CompileRequest
    from jaxtop.features.planning.model import compilations

    asked = CompileRequest(
        files,
        today.axes,
        None if today.program is None else today.program.argument_bytes,
        tuple(map(compilations.wanted, candidates)),
    )
    keys = [(each.axes, each.rules) for each in candidates]
    return dict(zip(keys, Compiler(asked, limit_s).compile_all(), strict=True))


def _files(path: Path, today: Today) -> tuple[str, ...]:
    """Return the file, or those of a folder that have the step's program, the newest first."""
    found = [path] if path.is_file() else _dumped(path, today)
    for each in found:
        if each.stat().st_size > LARGEST_FILE:
            raise UserError(
                f"{each} is larger than {in_bytes(LARGEST_FILE)}: it is no program, or has its data inside"
            )
    return tuple(str(each.resolve()) for each in found)


def _dumped(folder: Path, today: Today) -> list[Path]:
    if today.program is None:
        raise UserError(
            "--compile: the program of the run's step is not known; name its file, not the folder"
        )
    name, numbered, others = today.program.name, [], set()
    for each in folder.iterdir():
        match = DUMPED.fullmatch(each.name)
        if match is None:
            continue
        others.add(match[2])
        if match[2] == re.sub(r"[^\w.)( -]", "", name):  # as JAX names the file
            numbered.append((each.stat().st_mtime, int(match[1]), each))
    if not numbered:
        has = f", it has {', '.join(sorted(others)[:5])}" if others else ""
        raise UserError(f"--compile: no program {name} in {folder}{has}; {HOW}")
    return [each for _, _, each in sorted(numbered, reverse=True)[:MAX_FILES]]
