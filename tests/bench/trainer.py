"""A JAX process under measurement: a real training loop, controlled by JSON lines.

It imports nothing of jaxtop until it is asked to start the agent, so that it can be its own control.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tests.bench import probes, windowing

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH = 50  # arrays that one launch renews


class Training:
    """A small perceptron on a mesh, and a number of further arrays, renewed as a real state is."""

    def __init__(self, arrays: int, width: int = 256) -> None:
        devices = np.array(jax.devices())
        columns = 2 if len(devices) % 2 == 0 else 1
        mesh = Mesh(devices.reshape(-1, columns), ("data", "model"))
        self._on = {
            spec: NamedSharding(mesh, spec) for spec in (P(), P("data"), P(None, "model"), P("data", "model"))
        }
        dice = np.random.default_rng(0)
        across = self._on[P(None, "model")]
        self._params = {
            name: jax.device_put(dice.normal(size=shape).astype(np.float32) / 16, across)
            for name, shape in {"in": (64, width), "hidden": (width, width), "out": (width, 8)}.items()
        }
        self._momentum = jax.tree.map(jnp.zeros_like, self._params)
        self._inputs = dice.normal(size=(512, 64)).astype(np.float32)
        self._targets = np.sin(self._inputs[:, :8])
        others = max(0, arrays - 2 * len(self._params))
        self._others = [self._some(first, min(BATCH, others - first)) for first in range(0, others, BATCH)]
        self._renew = jax.jit(lambda some: [each + 1 for each in some], donate_argnums=0)
        self._next = 0
        self.count = 0

    def _some(self, first: int, count: int) -> list[Any]:
        shapes = [(8 * (1 + i % 5), 8 * (1 + i % 7)) for i in range(35)]
        shardings = list(self._on.values())
        return [
            jax.device_put(np.zeros(shapes[(first + i) % 35], np.float32), shardings[i % 4])
            for i in range(count)
        ]

    def step(self) -> Any:
        """Run one training step, from data on the host to the loss on the devices."""
        inputs = jax.device_put(self._inputs, self._on[P("data")])
        targets = jax.device_put(self._targets, self._on[P("data")])
        self._params, self._momentum, loss = _train(self._params, self._momentum, inputs, targets)
        self.count += 1
        return loss

    def renew(self, batches: int | None = None) -> None:
        """Replace this many batches of the other arrays, or all, with new array objects."""
        for _ in range(len(self._others) if batches is None else min(batches, len(self._others))):
            self._others[self._next] = self._renew(self._others[self._next])
            self._next = (self._next + 1) % len(self._others)

    def settle(self) -> None:
        jax.block_until_ready((self._params, self._others))


@jax.jit
def _train(params: Any, momentum: Any, inputs: Any, targets: Any) -> Any:
    def loss_of(params: Any) -> Any:
        hidden = jnp.tanh(inputs @ params["in"])
        return jnp.mean((jnp.tanh(hidden @ params["hidden"]) @ params["out"] - targets) ** 2)

    loss, slope = jax.value_and_grad(loss_of)(params)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, slope)
    return jax.tree.map(lambda p, m: p - 0.01 * m, params, momentum), momentum, loss


@jax.jit
def _trivial(x: Any) -> Any:
    return x + 1


class Commands:
    """The commands of the measuring process: each method is one, and its result is the answer."""

    def __init__(self, arrays: int) -> None:
        self._training = Training(arrays)
        self._before: frozenset[int] = frozenset()
        self._agent: Any = None
        for _ in range(20):
            self._training.step()
        self._training.renew()
        self._training.renew()
        self._training.settle()

    def start(self) -> None:
        from jaxtop import agent

        self._before = probes.tasks()  # further threads are the agent's
        agent.start("bench")
        agent._agent._loader.join(60)  # what is measured is the agent at work
        self._agent = agent

    def await_viewers(self, viewers: int) -> None:
        """Wait until there are exactly this many viewers."""
        end = time.monotonic() + 30
        while self._agent._agent._board.publisher.viewers != viewers:
            if time.monotonic() > end:
                raise TimeoutError(f"not {viewers} viewers but {self._agent._agent._board.publisher.viewers}")
            time.sleep(0.02)

    def stop(self) -> None:
        self._agent.stop()
        self._agent = None

    def _agents_threads(self) -> frozenset[int]:
        return probes.tasks() - self._before if self._agent is not None else frozenset()

    def train(self, seconds: float, pause: float = 0.02, metric_bytes: int = 0) -> dict[str, float]:
        """Train for this long, with a rest after each step; return the CPU and wake-ups of the agent."""
        metrics = {f"metric {i} {'x' * (metric_bytes // 10)}": 0.5 for i in range(10 if metric_bytes else 0)}
        threads = self._agents_threads()
        started, before, woken = time.monotonic(), probes.cpu(threads), probes.wakes(threads)
        while time.monotonic() < started + seconds:
            self._step(metrics)
            self._training.renew(1)
            time.sleep(pause)
        elapsed = time.monotonic() - started
        now, wakes = probes.cpu(self._agents_threads()), probes.wakes(self._agents_threads())
        return {
            "elapsed": elapsed,
            "cpu": sum(now[task] - before.get(task, 0.0) for task in now),
            "wakes": sum(wakes[task] - woken.get(task, 0) for task in wakes),
        }

    def wake(self, a_second: float, seconds: float) -> dict[str, float]:
        """Train beside a thread that wakes this often and does nothing; return its CPU."""
        is_over = threading.Event()

        def wake() -> None:
            while not is_over.wait(1 / a_second):
                pass

        thread = threading.Thread(target=wake)
        thread.start()
        assert thread.native_id is not None
        task = frozenset({thread.native_id})
        before = probes.cpu(task)[thread.native_id]
        elapsed = self.train(seconds)["elapsed"]
        used = probes.cpu(task)[thread.native_id] - before
        is_over.set()
        thread.join()
        return {"elapsed": elapsed, "cpu": used}

    def paced(self, seconds: float, rate: float) -> dict[str, float]:
        """Make so many steps a second for this long; return how many, their time, and the script's CPU."""
        loss = self._training.step()
        jax.block_until_ready(loss)
        count, in_steps = 0, 0.0
        began, cpu = time.monotonic(), time.thread_time()
        while (now := time.monotonic()) < began + seconds:
            jax.block_until_ready(self._training.step())
            count += 1
            ended = time.monotonic()
            in_steps += ended - now
            time.sleep(max(0.0, began + count / rate - ended))
        elapsed = time.monotonic() - began
        cpu = time.thread_time() - cpu
        return {"elapsed": elapsed, "steps": count, "step": in_steps / count, "cpu": cpu / count}

    def costs(self) -> dict[str, Any]:
        """Return the costs that the agent reports for its parts, in microseconds since it started."""
        import msgspec

        from jaxtop_agent.service.messages import costs

        agent = self._agent._agent
        spent = costs(agent._board.sampler.costs, agent._names_of_threads(), 0)
        as_values: dict[str, Any] = msgspec.to_builtins(spent)
        return as_values

    def _step(self, metrics: dict[str, float]) -> None:
        loss = self._training.step()
        if self._agent is not None:
            self._agent.step(self._training.count, loss=loss, **metrics)
        jax.block_until_ready(loss)

    def step_time(self, seconds: float) -> float:
        """Return the mean seconds per step over a block of this length, including every stall."""
        self._training.settle()
        count, started = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - started) < seconds:
            self._step({})
            count += 1
        return elapsed / count

    def gaps(self, start: bool) -> list[float]:
        """Return the longest times, in seconds, for which this thread waited to run Python.

        Without an agent, a thread with known holds replaces it, because there would be nothing to measure.
        """
        if start:
            return self._on_fresh_arrays(lambda: probes.gaps(1.0, self._agents_threads()), start)
        with probes.a_known_holder() as holder:
            return self._on_fresh_arrays(lambda: probes.gaps(1.0, frozenset({holder})), start)

    def drops(self, start: bool) -> list[float]:
        """Return the longest times, in seconds, for which arrays outlived our last reference."""
        argument = jnp.zeros(())
        return self._on_fresh_arrays(lambda: probes.drops(1.0, lambda: _trivial(argument)), start)

    def _on_fresh_arrays(self, probe: Callable[[], list[float]], start: bool) -> list[float]:
        """Run a probe; with `start`, from the agent's start until it has counted the arrays for a viewer."""
        self._training.renew()
        self._training.settle()
        # Python's garbage collector takes 1.1 µs per new array, whoever starts it: it is the script's cost.
        gc.collect()
        if start:
            self.start()
        found = probe()
        for _ in range(30):
            if not start or self._agent._agent._board.publisher.viewers:
                break
            found += probe()
        return sorted(found + probe(), reverse=True)

    def loop(self, seconds: float, start: bool) -> dict[str, float]:
        """Launch a trivial function for this long; with `start`, after a viewer has joined a new agent."""
        argument = jnp.zeros(())
        if start:
            self.start()
            self.await_viewers(1)
        batches: list[float] = []
        now = began = time.perf_counter()
        while now < began + seconds:
            for _ in range(200):
                argument = _trivial(argument)
            last, now = now, time.perf_counter()
            batches.append(now - last)
        return {"mean": (now - began) / len(batches) / 200, "slowest": max(batches)}

    def launches(self, count: int, hook: str) -> float:
        """Return the seconds per launch of a trivial function, with no hook, an empty one, or ours."""
        argument = jnp.zeros(())
        _trivial(argument)
        undo = _install(hook)
        started = time.perf_counter()
        for _ in range(count):
            _trivial(argument)
        elapsed = time.perf_counter() - started
        undo()
        return elapsed / count

    def census(self, rounds: int) -> dict[str, Any]:
        """Count the arrays `rounds` times; return CPU seconds of each, growth in MB, and bytes to send."""
        from types import SimpleNamespace

        from jaxtop import wire
        from jaxtop_agent import jaxprivate
        from jaxtop_agent.arrays.watched_names import WatchedNames
        from jaxtop_agent.collectors.arrays import ArrayCensus
        from jaxtop_agent.core.board import SamplerState

        told: list[Any] = []
        board: Any = SimpleNamespace(
            identity=SimpleNamespace(simulated_limit_bytes=None),
            sampler=SamplerState(),
            sources={},
            stopping=False,
            send=told.append,
        )
        collector = ArrayCensus(WatchedNames())

        def count() -> tuple[float, int]:
            told.clear()
            before = time.thread_time()
            collector.collect(board, jaxprivate.default_client())
            return time.thread_time() - before, sum(len(wire.encode(message)) for message in told)

        def without(share: float) -> int:
            """Return the bytes sent when this share of the arrays disappears and returns."""
            others = self._training._others
            keep = round(len(others) * (1 - share))
            self._training._others, gone = others[:keep], others[keep:]
            del others
            away = [[(each.shape, each.sharding) for each in some] for some in gone]
            del gone
            sent = count()[1]
            self._training._others += [
                [jax.device_put(np.zeros(shape, np.float32), sharding) for shape, sharding in some]
                for some in away
            ]
            return max(sent, count()[1])

        before = probes.memory()["uss"]
        first = count()
        taken = [count()[0] for _ in range(rounds)]
        grown = probes.memory()["uss"] - before
        for _ in range(2):  # the first time also changes the line that creates them
            self._training.renew()
            renewed = count()[1]
        return {
            "seconds": taken,
            "grown_mb": grown,
            "bytes": {"whole": first[1], "rebuilt": renewed, "1 %": without(0.01), "all": without(1.0)},
        }

    def beside_windows(self, seconds: float) -> dict[str, Any]:
        """Return the steps, and the windows taken meanwhile."""
        windows = windowing.Windows(self._agent)
        try:
            return windows.beside(lambda: self._step({}), seconds)
        finally:
            windows.close()

    def window_gaps(self, count: int) -> list[list[float]]:
        """Return the longest wait for the GIL around each of this many windows, and without one."""
        windows = windowing.Windows(self._agent)
        try:
            return windows.gaps(lambda: self._step({}), self._agents_threads(), count)
        finally:
            windows.close()

    def window_cost(self, collectives: int, windows: int) -> list[dict[str, float]]:
        return windowing.cost(collectives, windows)

    def memory(self) -> dict[str, float]:
        self._training.settle()
        return probes.memory()


def _install(hook: str) -> Any:
    if hook == "none":
        return lambda: None
    if hook == "ours":
        from jaxtop_agent.hooks.launches import Launches

        launches = Launches()
        launches.install()
        return launches.uninstall
    from jaxtop_agent.jaxprivate import LaunchHook

    slot = LaunchHook()
    slot.set(lambda fun, args, kwargs, out: None)  # noqa: ARG005 - JAX's signature
    return lambda: slot.set(None)


def main() -> None:
    """Answer commands until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # other output must not be mistaken for an answer
    commands = Commands(int(sys.argv[1]))
    print(json.dumps({"answer": None}), file=answers, flush=True)
    for line in sys.stdin:
        name, arguments = json.loads(line)
        answer = getattr(commands, name)(**arguments)
        print(json.dumps({"answer": answer}), file=answers, flush=True)
    if commands._agent is not None:
        commands.stop()


if __name__ == "__main__":
    main()
