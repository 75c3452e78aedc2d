"""`jaxtop ls`: list the live runs of this user, from their run files."""

from __future__ import annotations

import time
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec

from jaxtop.cli.errors import UserError
from jaxtop.cli.text.words import aligned, legible
from jaxtop.store import runfiles, unused
from jaxtop.wire import MAIN_ROLE

if TYPE_CHECKING:
    import argparse

    from jaxtop.wire import Hello


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print a JSON list")


def main(arguments: argparse.Namespace) -> int:
    runs = live_runs()
    if not runs and (why := runfiles.why_hidden()):
        raise UserError(why)
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(runs), indent=2).decode())
    elif runs:
        print("\n".join(aligned(cells(runs))))
    else:
        print("no live runs; start one with `jaxtop run SCRIPT` or `jaxtop demo`")
    if not arguments.json:
        for each in runfiles.unshown():
            print(legible(f"not shown: {each.name} (pid {each.pid}): {each.why}"))
        for one in unused.find():
            print(legible(f"not shown: {one.name} (pid {one.pid}): {unused.WHY}"))
    return 0


def live_runs() -> list[dict[str, Any]]:
    """Return the runs with a live process on this machine, newest first."""
    found = runfiles.tidy(runfiles.find())
    living = [each.hello for each in found if not each.is_stale]
    by_run = sorted(living, key=lambda hello: (hello.run or hello.agent, hello.process_index or 0))
    runs = []
    for run_id, group in groupby(by_run, key=lambda hello: hello.run or hello.agent):
        members = list(group)
        first = members[0]
        runs.append(
            {
                "id": run_id,
                "name": first.name,
                "process_count": first.process_count,
                "processes_here": len(members),
                "devices_here": sum(len(hello.devices) for hello in members),
                "platform": first.platform,
                "started_s": round(first.started_ms / 1000, 3),
                "target": first.requests,
                "pids": [hello.pid for hello in members],
                "family": first.family,
                "role": _role_of(first),
            }
        )
    sizes = Counter(run["family"] for run in runs if run["family"])
    for run in runs:
        if run["role"] is None and sizes[run["family"]] > 1:
            run["role"] = {"name": MAIN_ROLE, "is_guess": True}
    return sorted(runs, key=lambda run: -run["started_s"])


def first_of_families(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the runs without those that the process of another one has started: they are shown together."""
    living = [each.hello for each in runfiles.find() if not each.is_stale]
    jobs = runfiles.together(living)
    first = [min(job, key=lambda hello: hello.started_ms) for job in jobs]
    later = {hello.run or hello.agent for job in jobs for hello in job}
    return [run for run in runs if run["id"] not in later - {each.run or each.agent for each in first}]


def cells(runs: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return the column titles, then the cells of each run."""
    with_roles = any(run["role"] for run in runs)
    titles = (
        "NAME",
        *(["ROLE"] if with_roles else []),
        "ID",
        "PROCESSES",
        "DEVICES",
        "PLATFORM",
        "UP",
        "TARGET",
    )
    rows: list[tuple[str, ...]] = [titles]
    for run in runs:
        count = run["process_count"]
        processes = f"{run['processes_here']} of {count}" if count else f"{run['processes_here']}"
        rows.append(
            (
                legible(run["name"] or "n/a"),
                *([_role(run["role"])] if with_roles else []),
                run["id"],
                processes,
                str(run["devices_here"]),
                run["platform"] or "n/a",
                _duration(time.time() - run["started_s"]),
                run["target"],
            )
        )
    return rows


def _role_of(hello: Hello) -> dict[str, Any] | None:
    if hello.role is None:
        return None
    number = {} if hello.role_number is None else {"number": hello.role_number}
    return {"name": hello.role, "is_guess": hello.is_role_guessed, **number}


def _role(role: dict[str, Any] | None) -> str:
    if role is None:
        return ""
    number = f" {role['number']}" if "number" in role else ""
    return legible(f"{'~' * role['is_guess']}{role['name']}{number}")


def _duration(seconds: float) -> str:
    minutes, s = divmod(int(max(0, seconds)), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}h{m:02}m" if hours else f"{m}m{s:02}s"
