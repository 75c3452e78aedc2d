"""One process of the demo: `python -m jaxtop_agent.demo.train --process 0 --processes 2 …`."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from jaxtop import agent
from jaxtop_agent.demo import MODEL_SIZES, ROWS
from jaxtop_agent.demo.checkpoints import Checkpoints
from jaxtop_agent.demo.faults import FAULTS_BY_NAME, schedule
from jaxtop_agent.demo.faults.planting import Planting
from jaxtop_agent.demo.process import (
    LEAVE_WITHIN,
    join_the_others,
    keep_standard_output,
    leave_on_signals,
    prepare_environment,
    stay_after,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jaxtop_agent.demo.faults import Fault
    from jaxtop_agent.demo.faults.schedule import FaultTurn

EVALUATE_EVERY = 50  # steps
REPORT_EVERY = 2.0  # seconds
STEPS_IN_FLIGHT = 2


def main(argv: Sequence[str] | None = None, program: Callable[..., None] | None = None) -> int:
    """Run a program in this process; by default the demo's own training."""
    args = _parse(argv)
    prepare_environment(args.devices)
    joined, leaving = threading.Event(), threading.Event()
    leave_on_signals(joined, leaving)
    agent.start(name="demo")
    try:
        if args.processes > 1:
            keep_standard_output()
            join_the_others(args.process, args.processes, args.coordinator)
            joined.set()
        run = program or partial(train, model_size=args.model, save_every=args.save_every)
        if args.fault == schedule.TOUR:
            turns = schedule.of_tour(args.fault_after)
        else:
            turns = schedule.of_fault(FAULTS_BY_NAME.get(args.fault), args.fault_after)
        run(args.duration, args.steps, args.seed, turns)
    except Exception as error:
        if leaving.is_set():
            # The other processes have left. This is not an error: the signal thread is about to end this one.
            time.sleep(2 * LEAVE_WITHIN)
        if joined.is_set():
            stay_after(error, args.duration)
        raise
    return 0


def train(
    duration: float | None,
    steps: int | None,
    seed: int,
    turns: Iterable[FaultTurn] = (),
    *,
    model_size: int | None = None,
    save_every: int = 0,
) -> None:
    """Train for the same number of steps in every process, with a fault at a time."""
    import jax  # here and below: jax reads the environment at import, and main sets it

    from jaxtop_agent.demo import data, model

    mesh = _mesh(model_size)
    rows = mesh.shape["data"] * max(1, ROWS // mesh.shape["data"])
    text = data.corpus()
    lm = model.build(mesh, seed)
    state = lm.init()
    held_out = data.batch(text.held_out, (seed,), rows, lm.batch_sharding)

    def rebuild(variant: str, state: model.TrainState) -> model.TrainState:
        nonlocal lm
        lm = model.build(mesh, seed, variant)
        return lm.take_over(state)

    agreement = Agreement(duration, turns)
    report = LossReport(is_printed=jax.process_index() == 0)
    report.begin(state.params, mesh)
    planting = Planting((jax.process_index(), jax.process_count(), mesh), rebuild, report.show)
    checkpoints = Checkpoints(save_every)
    kept: dict[str, Any] = {}
    in_flight: deque[Any] = deque()
    i = 0
    while steps is None or i < steps:
        if i == agreement.until:
            report.progress(i)
            if not agreement.go_on(i):
                break
            if agreement.begins is not None:
                state = planting.begin(agreement.begins, i, state, kept)
        if i % EVALUATE_EVERY == 0:
            report.held_out = lm.eval_step(state.params, held_out)
        planting.load_batch(i)
        tokens = data.batch(
            text.train, (seed, i), rows, lm.batch_sharding, data.LENGTH - planting.fault.shorter(i)
        )
        planting.fault.before_launch(i)
        state, loss = lm.train_step(state, tokens)
        agent.step(i, tokens=rows * model.CONTEXT, loss=loss)
        planting.fault.after_launch(i, loss, kept)
        report.loss = loss
        # Without this wait the main thread runs far ahead of the devices, so a stop takes effect much later.
        in_flight.append(loss)
        if len(in_flight) > STEPS_IN_FLIGHT:
            in_flight.popleft().block_until_ready()
        i += 1
        if checkpoints.is_due(i):
            checkpoints.save_checkpoint(state)
        time.sleep(model.PAUSE)
    report.end(i)


class Agreement:
    """The number of steps that all processes take before they agree again whether to continue.

    Clocks differ, and a process that stopped one step before the others would leave them in a collective
    forever. So only process 0 reads its clock, and all processes follow its decision at the same step.
    """

    def __init__(self, duration: float | None, turns: Iterable[FaultTurn] = ()) -> None:
        self.until = 0
        # The fault that is due now, if any.
        self.begins: type[Fault] | None = None
        self._turns = iter(turns)
        self._next = next(self._turns, None)
        self._started: float | None = None
        self._duration = duration
        self._deadline = float("inf")
        self._last_asked = (0, 0.0)

    def go_on(self, i: int) -> bool:
        """Agree, at step `until`, whether there is a next step, and on the next value of `until`."""
        import numpy as np
        from jax.experimental import multihost_utils

        now = time.monotonic()
        wish = np.array([self._more(i, now), self._is_time(now)], np.int32)
        more, is_time = multihost_utils.broadcast_one_to_all(wish)
        self.until += int(more)
        self.begins = None
        if is_time and self._next is not None:
            self.begins, self._next = self._next.fault, next(self._turns, None)
        return self.until > i

    def _is_time(self, now: float) -> bool:
        if self._started is None and self.until:  # the first step took as long as its compilation
            self._started = now
        passed = 0 if self._started is None else now - self._started
        return self._next is not None and self._next.after <= passed

    def _more(self, i: int, now: float) -> int:
        since, then = self._last_asked
        self._last_asked = (i, now)
        if i == 0:
            return 1  # the first step compiles, so its duration says nothing about the next one
        if since == 0:
            self._deadline = now + (float("inf") if self._duration is None else self._duration)
            return 4
        seconds = (now - then) / (i - since)
        left = self._deadline - now
        return 0 if left < seconds / 2 else max(1, round(min(left, REPORT_EVERY) / seconds))


class LossReport:
    """The lines that process 0 prints: every two seconds, because to read a loss is to wait for it."""

    def __init__(self, *, is_printed: bool) -> None:
        self.loss: Any = None
        self.held_out: Any = None
        self._is_printed = is_printed
        self._first: float | None = None
        self._last_printed = (0, 0.0)

    def begin(self, params: Any, mesh: Any) -> None:
        import jax

        weights = sum(leaf.size for leaf in jax.tree.leaves(params))
        axes = " x ".join(f"{name} {size}" for name, size in mesh.shape.items())
        self.show(
            f"training {weights:,} weights on {mesh.size} devices ({axes}), {jax.process_count()} processes"
        )

    def progress(self, i: int) -> None:
        if self.loss is None:
            return
        loss, now = float(self.loss), time.monotonic()
        if self._first is None:
            self._first, self._last_printed = loss, (i, now)
            return
        since, then = self._last_printed
        if now - then < REPORT_EVERY / 2:
            return
        self._last_printed = (i, now)
        ms = 1000 * (now - then) / (i - since)
        self.show(f"step {i:5}  loss {loss:.3f}  {ms:.1f} ms/step  held out {float(self.held_out):.3f}")

    def end(self, i: int) -> None:
        last = float(self.loss)
        self.show(f"done: loss {self._first or last:.2f} -> {last:.2f} over {i} steps")

    def show(self, line: str) -> None:
        if self._is_printed:
            print(line, flush=True)


def _mesh(model_size: int | None) -> Any:
    """Return a (data, model) mesh of all devices; model stays within a host, unless asked otherwise."""
    import jax
    import numpy as np

    local, total = jax.local_device_count(), jax.device_count()
    usual = max(size for size in MODEL_SIZES if local % size == 0 and size * size <= total)
    return jax.sharding.Mesh(np.array(jax.devices()).reshape(-1, model_size or usual), ("data", "model"))


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m jaxtop_agent.demo.train", description=__doc__)
    parser.add_argument("--process", type=int, default=0, help="number of this process")
    parser.add_argument("--processes", type=int, default=1, help="number of processes")
    parser.add_argument("--coordinator", metavar="HOST:PORT", help="where process 0 listens")
    parser.add_argument("--devices", type=int, default=1, help="CPU devices of each process")
    parser.add_argument("--model", type=int, choices=MODEL_SIZES, help="size of the mesh axis model")
    parser.add_argument("--duration", type=float, metavar="S", help="seconds to train, after the first step")
    parser.add_argument("--steps", type=int, metavar="N", help="steps to train")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save-every", type=int, default=0, metavar="N", help="steps between two saves")
    parser.add_argument("--fault", choices=[*sorted(FAULTS_BY_NAME), schedule.TOUR], help="plant this fault")
    parser.add_argument("--fault-after", type=float, metavar="S", help="seconds before it begins")
    args = parser.parse_args(argv)
    if args.processes > 1 and args.coordinator is None:
        parser.error("several processes need --coordinator")
    return args


if __name__ == "__main__":
    sys.exit(main())
