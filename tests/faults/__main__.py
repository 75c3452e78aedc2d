"""`python -m tests.faults [NAME ...] [--repeat N] [--program demo|plain|rest]`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from jaxtop_agent.demo.faults import FAULTS, FAULTS_BY_NAME
from tests.faults import follow, table
from tests.faults.processes import OF_FAULTS, PROGRAMS

FOREIGN = ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME")


def main() -> int:
    arguments = _arguments()
    if arguments.names == ["list"]:
        print(_listed())
        return 0
    names = arguments.names or [table.HEALTHY, *FAULTS_BY_NAME]
    programs = arguments.program or list(OF_FAULTS)
    missed = 0
    with tempfile.TemporaryDirectory() as home:
        for name in [*FOREIGN, *(name for name in os.environ if name.startswith("JAXTOP"))]:
            os.environ.pop(name, None)
        os.environ["HOME"] = home
        for _ in range(
            arguments.repeat
        ):  # every kind once, then every kind again: a cut run covers them evenly
            for name in names:
                missed += sum(_measure(name, program, arguments) for program in programs)
    print(table.results(arguments.results))
    return 1 if missed else 0


def _measure(name: str, program: str, arguments: argparse.Namespace) -> bool:
    """Measure a fault in a program once, add the outcome to the results, and return whether it was missed."""
    fault = FAULTS_BY_NAME.get(name)
    limit = arguments.limit if fault else 60 * arguments.minutes
    try:
        outcome = follow.run(fault, program, limit, arguments.after)
    except RuntimeError as error:  # the machine may be short of something; the others go on
        print(f"{name} {program}: {error}", flush=True)
        return False
    found = f"{outcome.rule} after {outcome.after_cost} s: {outcome.text}" if outcome.rule else "nothing"
    print(f"{name} {program}: {found if fault else ''} [{outcome.seconds:.0f} s, load {outcome.load}]")
    if outcome.true is not None:
        print(f"    cost {outcome.estimated} of {outcome.true} {outcome.unit}")
    if outcome.of_panel is not None:
        print(
            f"    {outcome.part} {outcome.of_panel:.0%} in the panel, {outcome.of_finding:.0%} in the finding"
        )
    for line in [*outcome.wrong, *(f"{rule} unchecked: {why}" for rule, why in outcome.unchecked.items())]:
        print(f"    {line}")
    sys.stdout.flush()
    table.add(outcome.as_json(), arguments.results)
    return bool(fault and not outcome.rule)


def _listed() -> str:
    return "\n".join(
        f"  {name:<21} {text}"
        for name, text in [(table.HEALTHY, "no fault"), *((each.name, each.text) for each in FAULTS)]
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults",
        description="Plant faults in real runs, and measure which are found, when, and with which cost.",
        epilog=f"faults:\n{_listed()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="the faults to plant, all by default; `list` prints them"
    )
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="runs of each (default: 5)")
    parser.add_argument(
        "--program", action="append", choices=sorted(PROGRAMS), help="default: demo and plain"
    )
    parser.add_argument("--after", type=float, metavar="S", help="healthy seconds (default: as in the demo)")
    parser.add_argument(
        "--limit", type=float, default=120.0, metavar="S", help="seconds to wait for a finding"
    )
    parser.add_argument("--minutes", type=float, default=5.0, metavar="M", help="length of a healthy run")
    parser.add_argument(
        "--results",
        type=Path,
        default=table.RESULTS,
        metavar="FILE",
        help=f"where the latest {table.KEPT} runs of each are kept",
    )
    arguments = parser.parse_args()
    unknown = set(arguments.names) - {table.HEALTHY, *FAULTS_BY_NAME}
    if unknown and arguments.names != ["list"]:
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
