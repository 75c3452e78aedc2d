"""`python -m tests.plans [PROGRAM ...] [--recordings FOLDER] [--only-evaluate]`."""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections import Counter, deque
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop.features.planning.model.arguments import mesh_as_typed
from tests.plans import evaluate, machine, measure, table
from tests.plans.cases import CASES, CASES_BY_NAME

if TYPE_CHECKING:
    from jaxtop.base.meshes import Axes

# A run does not count if others used more cores than this meanwhile; with --quiet it is tried so often.
DISTURBED, TRIES = 0.25, 4
FOREIGN = ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XLA_FLAGS")


def main() -> int:
    arguments = _arguments()
    folder = arguments.recordings or Path(tempfile.mkdtemp(prefix="plans-"))
    print(f"recordings: {folder}", flush=True)
    (folder / "new").mkdir(parents=True, exist_ok=True)
    failed = 0 if arguments.only_evaluate else _measure_all(arguments, folder)
    if not arguments.only_measure:
        whole = table.WIDER_RESULTS if arguments.wider else table.RESULTS
        results = arguments.results or (folder / whole.name if arguments.names else whole)
        cases = [CASES_BY_NAME[name] for name in arguments.names] or CASES
        table.write(evaluate.evaluate(folder, cases, DISTURBED), results)
        print(table.results(results))
    return 1 if failed else 0


def _measure_all(arguments: argparse.Namespace, folder: Path) -> int:
    cases = [CASES_BY_NAME[name] for name in arguments.names] or CASES
    queue = deque((case.name, axes) for case in cases for axes in case.meshes)
    # Whatever else the machine does meanwhile should not meet one program only.
    random.Random(arguments.seed).shuffle(queue)
    words = ["--wider"] if arguments.wider else []
    failed = 0
    tries: Counter[tuple[str, Axes]] = Counter()
    with tempfile.TemporaryDirectory() as home:
        for name in [*FOREIGN, *(name for name in os.environ if name.startswith("JAXTOP"))]:
            os.environ.pop(name, None)
        os.environ["HOME"] = home
        while queue:
            name, axes = run = queue.popleft()
            tries[run] += 1
            if arguments.quiet:
                machine.wait_until_idle()
            try:
                truth = measure.measure(name, axes, folder / "new", arguments.seconds, words=words)
            except RuntimeError as error:
                print(f"{name} {mesh_as_typed(axes)}: {error}", flush=True)
                failed += 1
                continue
            step, others = truth["step"], truth["others"]
            print(f"{len(queue)} left: {name} {mesh_as_typed(axes)}: ", end="")
            if step["ms"] is None:
                print(f"only {step['steps']} steps", flush=True)
                failed += 1
                continue
            print(
                f"{step['ms']:.1f} ms ({step['low']:.1f} to {step['high']:.1f}), others {others}", flush=True
            )
            if table.add(truth, folder / table.TRUTH):
                measure.path_of(folder / "new", name, axes).rename(measure.path_of(folder, name, axes))
            if arguments.quiet and others > DISTURBED and tries[run] < TRIES:
                queue.append(run)
    return failed


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.plans",
        description="Run real programs on several meshes, and compare what the planner predicts from each.",
    )
    parser.add_argument("names", nargs="*", metavar="PROGRAM", help="all by default")
    parser.add_argument("--recordings", type=Path, metavar="FOLDER", help="where recordings are kept")
    parser.add_argument(
        "--wider", action="store_true", help="models of another width, on which no formula was tried"
    )
    parser.add_argument("--results", type=Path, metavar="FILE", help="where the comparison is kept")
    parser.add_argument("--seconds", type=float, default=14.0, metavar="S", help="length of each run")
    parser.add_argument("--seed", type=int, default=0, help="of the order of the runs")
    parser.add_argument(
        "--quiet", action="store_true", help="wait for an idle machine before each run; repeat disturbed runs"
    )
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--only-measure", action="store_true", help="run the programs, and stop")
    only.add_argument("--only-evaluate", action="store_true", help="use the recordings of an earlier round")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - CASES_BY_NAME.keys():
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    if arguments.only_evaluate and arguments.recordings is None:
        parser.error("--only-evaluate needs --recordings")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
