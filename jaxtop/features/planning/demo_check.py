"""`jaxtop plan --check`: run the demo's model on several meshes, and print predicted next to measured."""

from __future__ import annotations

import json
import math
import tempfile
import time
from contextlib import ExitStack
from importlib.util import find_spec
from math import prod
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from jaxtop.base.clock import steady
from jaxtop.base.meshes import BadMesh
from jaxtop.base.units import in_bytes, in_ms
from jaxtop.cli import demo
from jaxtop.cli.errors import UserError
from jaxtop.cli.machine import processes
from jaxtop.cli.reading.gather import measured
from jaxtop.cli.text.words import aligned, note
from jaxtop.features.planning.model.arguments import mesh_as_typed, parse_mesh
from jaxtop.features.planning.model.plan import CannotPlan
from jaxtop.features.planning.report import memory_in_words, step_in_words
from jaxtop.model.tuning import AS_DECLARED
from jaxtop.store import saved_probe
from jaxtop_agent.demo import ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtop.base.meshes import Axes
    from jaxtop.features.planning.model.plan import Candidate, Today
    from jaxtop.model import Cluster

    # Whether enough was measured of a run, since a time.
    Enough = Callable[[Cluster, float], bool]

AS_PLANNED, OTHERWISE, CANNOT = 0, 1, 2
# The first one is today's.
MESHES = tuple(map(parse_mesh, ("data=2,model=4", "data=4,model=2", "data=8,model=1", "data=2,model=2")))
STARTS_WITHIN = 120.0
# A run is measured this long after all of its figures are known: the first steps say little about the others.
SETTLES_IN, MEASURED_WITHIN = 8.0, 60.0
UNKNOWN = "n/a"


class Check(NamedTuple):
    """What was predicted for a mesh, and what the run on it measured. None where unknown."""

    axes: Axes
    is_today: bool
    predicted: Candidate
    measured: Candidate
    step_ms: float | None
    communication_ms: float | None
    # Of the arrays whose names both runs have: the predicted and the measured bytes of the fullest device.
    state: tuple[int, int]


def main(asked: Sequence[Axes], is_enough: Callable[[], Enough], *, as_json: bool) -> int:
    """Print predicted next to measured, and return whether the bytes of the state were as planned.

    Raises:
        CannotPlan: The demo cannot run on a mesh that is asked for.
        UserError: A run did not start.
    """
    found = list(_check(asked or MESHES, is_enough))
    if as_json:
        print(json.dumps({"schema": 1, "checks": [_as_value(each) for each in found]}))
    else:
        print(*_table_lines(found), sep="\n")
    return AS_PLANNED if all(each.state[0] == each.state[1] for each in found) else OTHERWISE


def _check(meshes: Sequence[Axes], is_enough: Callable[[], Enough]) -> Iterator[Check]:
    """Run the demo on each mesh; yield what was predicted from the first, and what was measured."""
    from jaxtop.features.planning.model.array_kinds import RunArrays  # imported late: errors must be fast
    from jaxtop.features.planning.model.planner import predict

    missing = [name for name in ("jax", "optax") if find_spec(name) is None]
    if missing:
        raise UserError(f"--check needs {' and '.join(missing)}: pip install 'jaxtop[demo]'", CANNOT)
    if uneven := next((axes for axes in meshes if ROWS % dict(axes).get("data", 1)), None):
        raise CannotPlan(f"{mesh_as_typed(uneven)}: data must divide the {ROWS} rows of the demo's batch")
    try:
        words = [demo.mesh_words(axes) for axes in meshes]
    except BadMesh as error:
        raise CannotPlan(str(error)) from None
    processes.end_with_sigterm()
    today: Today | None = None
    for number, (axes, of_mesh) in enumerate(zip(meshes, words, strict=True), 1):
        typed = mesh_as_typed(axes)
        note(f"running the demo on {typed}, {number} of {len(meshes)}")
        on_mesh = _today_on(axes, of_mesh, is_enough())
        today = today or on_mesh
        yield Check(
            axes=axes,
            is_today=on_mesh is today,
            predicted=predict(RunArrays(today), axes),
            measured=predict(RunArrays(on_mesh), on_mesh.axes),
            step_ms=None if on_mesh.step is None else on_mesh.step.step_ms,
            communication_ms=None if on_mesh.step is None else on_mesh.step.communication_ms,
            state=_state(today, on_mesh, axes),
        )


def _today_on(axes: Axes, words: Sequence[str], is_enough: Enough) -> Today:
    """Run the demo on a mesh of this machine's CPU, and return what jaxtop measures of it."""
    from jaxtop.features.planning.model.today import today  # as above

    with ExitStack() as stack:
        errors: list[IO[str]] = [stack.enter_context(tempfile.TemporaryFile("w+"))]
        with processes.uninterrupted():
            hosts = demo.start(1, prod(size for _, size in axes), None, errors, more=words)
            stack.callback(demo.stop, hosts)
        demo.discard_output(hosts[0])
        end = time.monotonic() + STARTS_WITHIN
        while (source := demo.source_of(hosts)) is None:
            if (status := hosts[0].poll()) is not None:
                how = f"{processes.how(status)}{processes.last_words(errors[0])}"
                raise UserError(f"the demo did not start: it {how}", CANNOT)
            if time.monotonic() > end:
                raise UserError(f"the demo did not start within {STARTS_WITHIN:.0f} s", CANNOT)
            time.sleep(0.1)

        known_since = math.inf

        def is_settled(cluster: Cluster, since: float) -> bool:
            nonlocal known_since
            if math.isinf(known_since) and is_enough(cluster, since):
                known_since = steady()
            return steady() - known_since >= SETTLES_IN

        cluster, now, _ = measured(source, MEASURED_WITHIN, AS_DECLARED, is_settled, CANNOT)
        return today(cluster, now, probe=saved_probe.last())


def _state(today: Today, found: Today, axes: Axes) -> tuple[int, int]:
    """Return the bytes of the arrays that both runs have: predicted from today's, and as measured."""
    from jaxtop.features.planning.model.sharding import on_fullest, place  # as above

    shared = {each.name for each in today.tensors} & {each.name for each in found.tensors} - {None}

    def held(base: Today, mesh_axes: Axes) -> int:
        return on_fullest(
            base, mesh_axes, (each for each in place(base, mesh_axes) if each.tensor.name in shared)
        )

    return held(today, axes), held(found, found.axes)


# The comparison as text and as JSON


def _table_lines(checks: Sequence[Check]) -> Iterator[str]:
    """Yield a table: for each mesh and figure what was predicted, what was measured, and the error."""
    rows = [("MESH", "FIGURE", "PREDICTED", "MEASURED", "ERROR")]
    for each in checks:
        label = f"{mesh_as_typed(each.axes)}{' (today)' * each.is_today}"
        for figure, predicted, found, error in _compared(each):
            rows.append((label, figure, predicted, found, error))
            label = ""
    yield from aligned(rows)
    exact = sum(each.state[0] == each.state[1] for each in checks)
    inside = [_is_inside(each) for each in checks if _needs(each) is not None]
    yield ""
    yield (
        f"State bytes exact on {exact} of {len(checks)} meshes, "
        f"memory inside on {sum(inside)} of {len(inside)}."
    )


def _compared(each: Check) -> Iterator[tuple[str, str, str, str]]:
    state, held = each.state
    yield "state", in_bytes(state), in_bytes(held), "exact" if state == held else f"{state - held:+,} bytes"
    needed, bounds = _needs(each), each.predicted.memory_bytes
    error = "" if needed is None or bounds is None else "inside" if _is_inside(each) else "outside"
    yield "memory", memory_in_words(bounds), UNKNOWN if needed is None else in_bytes(needed), error
    step = each.predicted.step_ms
    yield (
        "step",
        step_in_words(step),
        *_measured_and_error(each.step_ms, None if step is None else step.middle),
    )
    taken = sum(each.predicted.communication_ms.values())
    yield "communication", f"~{in_ms(taken)}", *_measured_and_error(each.communication_ms, taken)


def _measured_and_error(measured_ms: float | None, predicted_ms: float | None) -> tuple[str, str]:
    """Return a measured time, and the error of the predicted one."""
    if measured_ms is None:
        return UNKNOWN, ""
    known = predicted_ms is not None and measured_ms > 0
    return in_ms(measured_ms), f"{(predicted_ms or 0.0) / measured_ms - 1:+.0%}" if known else ""


def _needs(each: Check) -> float | None:
    """Return what the compiler of the run itself says about its memory."""
    return None if each.measured.memory_bytes is None else each.measured.memory_bytes.middle


def _is_inside(each: Check) -> bool:
    needed, bounds = _needs(each), each.predicted.memory_bytes
    return needed is not None and bounds is not None and bounds.low <= needed <= bounds.high


def _as_value(each: Check) -> dict[str, Any]:
    """Return a comparison as JSON."""
    predicted = each.predicted
    return {
        "mesh": dict(each.axes),
        "today": each.is_today,
        "state_bytes_per_device": {"predicted": each.state[0], "measured": each.state[1]},
        "memory_bytes_per_device": {
            "predicted": None if predicted.memory_bytes is None else list(predicted.memory_bytes),
            "measured": _needs(each),
        },
        "step_ms": {
            "predicted": None if predicted.step_ms is None else list(predicted.step_ms),
            "measured": each.step_ms,
        },
        "communication_ms": {
            "predicted": sum(predicted.communication_ms.values()),
            "measured": each.communication_ms,
        },
    }
