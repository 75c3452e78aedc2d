"""What was measured and predicted, and the table of it for docs/planner.md."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from jaxtop.features.planning.model.arguments import mesh_as_typed
from tests.plans.cases import CASES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tests.plans.cases import Case

RESULTS = Path(__file__).with_name("results.json")
WIDER_RESULTS = Path(__file__).with_name("results-wider.json")
TRUTH = "truth.json"
Row = dict[str, Any]
# Steps of two meshes that differ by less than this are equally fast.
EQUAL = 0.05


def load(path: Path) -> list[Row]:
    return json.loads(path.read_text()) if path.exists() else []


def add(truth: Row, path: Path) -> bool:
    """Keep a run unless an earlier one on that mesh was less disturbed; return whether it is kept."""
    found = load(path)
    alike = [each for each in found if (each["program"], each["mesh"]) == (truth["program"], truth["mesh"])]
    if any(each["others"] < truth["others"] for each in alike):
        return False
    write([*(each for each in found if each not in alike), truth], path)
    return True


def write(rows: list[Row], path: Path) -> None:
    path.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


def page() -> str:
    """Return all results as Markdown."""
    if not WIDER_RESULTS.exists():
        return results()
    return f"{results()}\n\n### The same programs, half as wide again\n\n{results(WIDER_RESULTS)}"


def results(path: Path = RESULTS) -> str:
    """Return what was measured, as Markdown: a summary and a row per program."""
    rows = load(path)
    if not rows:
        return "Nothing was measured yet."
    head = (
        "program", "meshes", "state exact", "memory inside", "width ÷ true", "best among first two",
        "step error", "error of today", "inside",
    )  # fmt: skip
    lines = [_line(head), "|---" * len(head) + "|"]
    lines += [_line(_of_case(case, rows)) for case in CASES if any(_of(case, rows))]
    return "\n".join([*_summary(rows), "", *lines])


def _of(case: Case, rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row["program"] == case.name]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _of_case(case: Case, rows: list[Row]) -> Iterator[str]:
    mine = _of(case, rows)
    others, own = _others(mine), _own(mine)
    yield case.text
    yield str(len(own))
    yield _share(map(_is_state_exact, mine))
    yield _share(_memory_inside(others))
    yield _median(_widths(others))
    yield _share(map(_is_best_among(2), _plans(mine)))
    yield _spread(_errors(others))
    yield _spread(_errors(own))
    yield _share(_step_inside(others))


def _summary(rows: list[Row]) -> Iterator[str]:
    others, plans = _others(rows), list(_plans(rows))
    yield (
        f"- {len(_own(rows))} runs, {len(rows)} predictions: from each run, its own mesh and the others "
        "on which the program ran."
    )
    yield f"- State bytes equal to what the run holds: {_share(map(_is_state_exact, rows))}."
    for row in rows:
        if not _is_state_exact(row):
            yield f"    - not: {_inexact(row)}"
    unknown = sum(not row["predicted"].get("memory") for row in others)
    yield (
        f"- Memory inside its interval: {_share(_memory_inside(others))}"
        f"{f', unknown in {unknown}' if unknown else ''}; the interval is as wide as "
        f"{_median(_widths(others))} of the true figure (median)."
    )
    yield (
        f"- Step time: error of the interval's middle in the median {_spread(_errors(others))}; "
        f"inside the interval: {_share(_step_inside(others))}. "
        f"Of the run's own mesh: {_spread(_errors(_own(rows)))}."
    )
    yield f"- Error of the middle within {_shares_within(_errors(others))}."
    yield (
        f"- The mesh that measured best is the planner's first in {_share(map(_is_best_among(1), plans))}, "
        f"among its first two in {_share(map(_is_best_among(2), plans))}; "
        f"counting those that differ by less than {EQUAL:.0%} as equal: "
        f"{_share(map(_is_best_among(1, EQUAL), plans))} and {_share(map(_is_best_among(2, EQUAL), plans))}."
    )
    for name, pick in (("the planner's first", _first), ("as today", _as_today), ("all data", _all_data)):
        picked = [_regret(rows, pick(rows)) for rows in plans]
        best = sum(each <= 0 for each in picked)
        yield (
            f"- Choosing {name}: best in {best} of {len(picked)}; a step takes {median(picked):.0%} longer "
            f"than on the best mesh in the median, {sum(picked) / len(picked):.0%} in the mean."
        )
    baselines = [[_as_today(each), _all_data(each)] for each in plans]
    both = sum(
        min(_regret(rows, row) for row in two) <= 0 for rows, two in zip(plans, baselines, strict=True)
    )
    yield f"- One of the two, as today and all data, is best in {both} of {len(plans)}."
    disturbed = [row["true"]["others"] for row in _own(rows)]
    cores = " or ".join(str(count) for count in sorted({row["true"]["cores"] for row in _own(rows)}))
    yield f"- Other processes used {min(disturbed)} to {max(disturbed)} of the {cores} cores during the runs."


def _others(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row["today"] != row["mesh"]]


def _own(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row["today"] == row["mesh"]]


def _is_state_exact(row: Row) -> bool:
    return row["predicted"].get("state") == row["true"]["state"]


def _inexact(row: Row) -> str:
    today, mesh = (mesh_as_typed(tuple(row[key].items())) for key in ("today", "mesh"))
    return (
        f"{row['program']} from {today} to {mesh}: {row['predicted'].get('state')} of {row['true']['state']}"
    )


def _memory_inside(rows: Iterable[Row]) -> Iterator[bool]:
    for row in rows:
        bounds = row["predicted"].get("memory")
        yield bounds is not None and bounds[0] <= row["true"]["memory"] <= bounds[1]


def _widths(rows: Iterable[Row]) -> list[float]:
    found = [(row["predicted"].get("memory"), row["true"]["memory"]) for row in rows]
    return [(bounds[1] - bounds[0]) / true for bounds, true in found if bounds]


def _step_inside(rows: Iterable[Row]) -> Iterator[bool]:
    for row in rows:
        bounds = row["predicted"].get("step")
        yield bounds is not None and bounds[0] <= row["true"]["step"] <= bounds[1]


def _errors(rows: Iterable[Row]) -> list[float]:
    """Return the errors of predicted steps, as shares of the true ones."""
    found = [(_middle(row), row["true"]["step"]) for row in rows]
    return [middle / true - 1 for middle, true in found if middle is not None]


def _middle(row: Row) -> float | None:
    bounds = row["predicted"].get("step")
    return None if bounds is None else sum(bounds) / 2


def _plans(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield the rows of each recording, the shortest predicted step first."""
    by_recording: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        by_recording.setdefault((row["program"], str(row["today"])), []).append(row)
    for each in by_recording.values():
        yield sorted(each, key=lambda row: middle if (middle := _middle(row)) is not None else float("inf"))


def _is_best_among(count: int, tolerance: float = 0.0) -> Any:
    return lambda rows: any(
        _middle(row) is not None and _regret(rows, row) <= tolerance for row in rows[:count]
    )


def _regret(rows: Sequence[Row], chosen: Row) -> float:
    """Return how much longer a step takes on this mesh than on the best, as a share."""
    return chosen["true"]["step"] / min(row["true"]["step"] for row in rows) - 1


def _first(rows: Sequence[Row]) -> Row:
    return _as_today(rows) if _middle(rows[0]) is None else rows[0]


def _as_today(rows: Sequence[Row]) -> Row:
    return _own(rows)[0]


def _all_data(rows: Sequence[Row]) -> Row:
    return max(rows, key=lambda row: row["mesh"]["data"])


def _share(values: Iterable[bool]) -> str:
    found = list(values)
    return f"{sum(found)} of {len(found)}" + (f" ({sum(found) / len(found):.0%})" if found else "")


def _median(values: Sequence[float]) -> str:
    return f"{median(values):.2f}" if values else ""


def _spread(errors: Sequence[float]) -> str:
    sizes = sorted(map(abs, errors))
    if not sizes:
        return "not predicted"
    return f"{median(sizes):.0%}, 90 % within {sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))]:.0%}"


def _shares_within(errors: Sequence[float]) -> str:
    sizes = list(map(abs, errors))
    return ", ".join(
        f"{limit:.0%}: {_share(size <= limit for size in sizes)}" for limit in (0.1, 0.25, 0.5, 1.0)
    )
