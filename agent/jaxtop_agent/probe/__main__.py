"""One process of a probe: `python -m jaxtop_agent.probe`, started by `jaxtop probe`."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import psutil

from jaxtop.base import processes
from jaxtop.wire.probing import BENCHES, FAILED, MEETING, Here, ProbePlan, ProbeReport, ProbeRequest, Stage
from jaxtop_agent import jaxprivate
from jaxtop_agent.collectors.topology import describe
from jaxtop_agent.hardware import mapping
from jaxtop_agent.probe import benches, meetings, planning
from jaxtop_agent.probe.store import NotArrived, Reporter, Store

if TYPE_CHECKING:
    from collections.abc import Sequence

# Process 0 hosts the store, and JAX aborts processes that exit after it. One second lets them exit first.
LINGER = 1.0


def main() -> None:
    """Measure, report, and exit without JAX's shutdown, which waits for processes that may have exited."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command ends this process
    arguments = _parse()
    pipe = None if arguments.report is None else os.fdopen(arguments.report, "wb")
    try:
        probe(arguments, Reporter(pipe))
    except Exception as error:
        first = str(error).strip().partition("\n")[0] or type(error).__name__
        named = "" if isinstance(error, NotArrived | planning.Unfit) else f"{type(error).__name__}: "
        sys.stderr.write(f"{named}{first}\n")
        sys.stderr.flush()
        os._exit(FAILED)
    os._exit(0)


def probe(arguments: argparse.Namespace, reporter: Reporter) -> None:
    """Join the other processes, agree on a plan, run it, and send all reports to process 0."""
    reporter.send(Stage("starting JAX"))
    import jax

    began = time.monotonic()
    request = msgspec.json.decode(arguments.asked, type=ProbeRequest)
    _join(arguments, request.patience_s, reporter)
    reporter.send(Stage("looking for devices"))
    try:
        own, devices = jax.local_devices(), jax.devices()
    except Exception as error:  # the exception type varies with version and platform
        raise planning.Unfit(f"JAX finds no devices: {str(error) or type(error).__name__}") from error
    store = Store(jax.process_index(), jax.process_count(), request.patience_s)
    here = _described_process(store.process, own)
    store.put(f"here/{store.process}", here)
    made: ProbePlan | None = None
    if store.process == 0:
        everyone = [store.get(f"here/{i}", Here, i) for i in range(store.processes)]
        reporter.send(Stage("choosing sizes"))
        made = planning.plan(request, everyone, devices, own)
    plan = store.decided_by_first("plan", made, ProbePlan)
    reporter.send(plan)
    rounds = _devices(plan, own, store, reporter)
    left = request.seconds - (time.monotonic() - began)
    met = meetings.measure(plan, max(request.seconds / 4, left), store, reporter)
    store.put(f"report/{store.process}", ProbeReport(here, rounds, tuple(met)))
    reporter.send(Stage("gathering"))
    if store.process == 0:
        for i in range(store.processes):
            reporter.send(store.get(f"report/{i}", ProbeReport, i))
        if store.processes > 1:
            time.sleep(LINGER)


def _devices(
    plan: ProbePlan, own: Sequence[Any], store: Store, reporter: Reporter
) -> dict[str, tuple[tuple[float, ...], ...]]:
    """Measure the devices one by one, each once per round, so that a drift affects all of them alike."""
    found: dict[str, list[list[float]]] = {}
    for name in plan.benches:
        reporter.send(Stage(name, 0, plan.rounds))
        bench: Any = benches.Together(own, plan) if name == "together" else benches.BENCHES[name](own, plan)
        rows: dict[str, list[list[float]]] = {figure: [[] for _ in own] for figure in BENCHES[name]}
        for number in range(plan.rounds):
            for place, values in _round(bench, len(own), plan, store, (name, number)):
                for figure, value in zip(BENCHES[name], values, strict=True):
                    rows[figure][place].append(value)
            reporter.send(Stage(name, number + 1, plan.rounds))
        found |= rows
    return {figure: tuple(map(tuple, rows)) for figure, rows in found.items()}


def _round(
    bench: Any, count: int, plan: ProbePlan, store: Store, at: tuple[str, int]
) -> list[tuple[int, tuple[float, ...]]]:
    """Measure all devices of this process once, when it is its turn."""
    name, number = f"{at[0]}/{at[1]}", at[1]
    if isinstance(bench, benches.Together):
        store.meet(name)
        return list(enumerate(bench.measure_all(plan.slot_s)))
    found = []
    # The order alternates: the first of one round is the last of the next.
    there = -1 if number % 2 else 1
    for turn in range(max(plan.turns) + 1)[::there]:
        store.meet(f"{name}/{turn}")
        if plan.turns[store.process] == turn:
            found += [(place, bench.measure(place, plan.slot_s)) for place in range(count)[::there]]
    store.meet(f"{name}/end")
    return found


def _join(arguments: argparse.Namespace, patience: float, reporter: Reporter) -> None:
    """Join the other processes, if the command or the environment says that there are others."""
    import jax

    if arguments.alone:
        return
    options = {
        "coordinator_address": arguments.coordinator,
        "num_processes": arguments.processes,
        "process_id": arguments.process,
    }
    if arguments.local:
        # Otherwise the coordinator listens on all interfaces, and JAX takes a Slurm job's numbers for ours.
        options |= {
            "coordinator_bind_address": arguments.coordinator,
            "cluster_detection_method": "deactivate",
        }
    reporter.send(Stage(MEETING))
    try:
        jax.distributed.initialize(**options, initialization_timeout=max(1, int(patience)))
    except ValueError:
        if arguments.coordinator:
            raise
        return  # the environment names no other processes


def _described_process(process: int, own: Sequence[Any]) -> Here:
    limits = [(jaxprivate.memory_stats(device) or {}).get("bytes_limit") for device in own]
    return Here(
        process=process,
        hostname=socket.gethostname(),
        boot=processes.here().boot,
        pid=os.getpid(),
        jax=jaxprivate.versions()[0] or "",
        devices=tuple(
            describe(device, None if gpu is None else gpu.uuid)
            for device, gpu in zip(own, mapping.local_gpus(own), strict=True)
        ),
        device_bytes=tuple(limits),
        machine_bytes=psutil.virtual_memory().available,
        cache_bytes=_cache(),
    )


def _cache() -> int:
    """Return the bytes of the largest cache of the first CPU; 0 where the system does not say."""
    sizes = [0]
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = file.read_text("ascii").strip()
        if text.endswith("K") and text[:-1].isdecimal():
            sizes.append(int(text[:-1]) * 1024)
    return max(sizes)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m jaxtop_agent.probe", description=__doc__)
    parser.add_argument("--asked", required=True, help="what to measure, as JSON")
    parser.add_argument("--report", type=int, metavar="FD", help="a pipe for progress and results")
    parser.add_argument("--coordinator", metavar="HOST:PORT")
    parser.add_argument("--processes", type=int)
    parser.add_argument("--process", type=int)
    parser.add_argument("--local", action="store_true", help="all processes are on this machine")
    parser.add_argument("--alone", action="store_true", help="this is the only process")
    return parser.parse_args()


if __name__ == "__main__":
    main()
