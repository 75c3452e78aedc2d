"""What the planner predicts from each recording, beside what the programs said of themselves."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from jaxtop.features.planning.model.plan import CannotPlan, PlanRequest
from jaxtop.features.planning.model.planner import plan
from jaxtop.features.planning.model.today import today
from jaxtop.sources import Session
from tests.plans import measure, table
from tests.plans.cases import CASES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from jaxtop.base.meshes import Axes
    from jaxtop.features.planning.model.plan import Candidate, Today
    from tests.plans.cases import Case


def evaluate(folder: Path, cases: Sequence[Case] = CASES, most_others: float = inf) -> list[dict[str, Any]]:
    """Return for each recording and mesh what is predicted, beside what the run on that mesh said.

    Runs during which other processes used more than `most_others` cores are left out.
    """
    truths = {
        (each["program"], tuple(each["mesh"].items())): each
        for each in table.load(folder / table.TRUTH)
        if each["others"] <= most_others
    }
    return [
        row
        for case in cases
        for axes in case.meshes
        if (case.name, axes) in truths
        for row in _from(folder, case, axes, truths)
    ]


def _from(
    folder: Path, case: Case, axes: Axes, truths: dict[tuple[str, Axes], dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of one recording."""
    path = measure.path_of(folder, case.name, axes)
    session = Session([path])
    try:
        end = session.span[1]
        read = today(session.at(end), end)
    except CannotPlan as error:
        raise RuntimeError(f"{path.name}: {error}") from None
    finally:
        session.close()
    for other in case.meshes:
        if (case.name, other) in truths:
            yield {
                "program": case.name,
                "today": dict(axes),
                "mesh": dict(other),
                "predicted": _predicted(read, other),
                "true": _truth(truths[case.name, other]),
            }


def _predicted(read: Today, axes: Axes) -> dict[str, Any]:
    try:
        candidates = plan(read, PlanRequest(meshes=(axes,))).candidates
    except CannotPlan as error:
        return {"refused": str(error)}
    return _figures(next(each for each in candidates if each.axes == axes))


def _figures(each: Candidate) -> dict[str, Any]:
    return {
        "state": each.state_bytes_per_device,
        "memory": None if each.memory_bytes is None else list(each.memory_bytes),
        "step": None if each.step_ms is None else [round(bound, 2) for bound in each.step_ms],
    }


def _truth(truth: dict[str, Any]) -> dict[str, Any]:
    memory = truth["memory"]
    needed = memory["argument"] + memory["output"] + memory["temp"] - memory["alias"]
    step = truth["step"]
    return {
        "state": truth["state_bytes"],
        "memory": needed + truth["unused_bytes"],
        "step": step["ms"] and round(step["ms"], 2),
        "spread": [bound and round(bound, 2) for bound in (step["low"], step["high"])],
        "others": truth["others"],
        "cores": truth["cores"],
    }
