"""`jaxtop probe`: measure idle devices and links, and report which of them are slow."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import msgspec

from jaxtop import __version__
from jaxtop.base import meshes
from jaxtop.base.processes import Namespace, here
from jaxtop.cli.errors import UserError
from jaxtop.cli.machine import processes
from jaxtop.cli.text.output import ProgressLine
from jaxtop.cli.text.words import amount, duration, legible, note
from jaxtop.features.probe import processes as probe_processes
from jaxtop.store import runfiles, saved_probe
from jaxtop.wire.probing import BENCHES, COLLECTIVES, ProbeRequest, Stage

NONE_SLOW, SOME_SLOW, COULD_NOT = 0, 1, probe_processes.COULD_NOT
SECONDS = 30.0
WAIT = 60.0
MIN_MESSAGE_BYTES = 4  # bytes: one number
WHAT = (*BENCHES, COLLECTIVES)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "exit status: 0 no device is slow, 1 some are, 2 nothing was measured"
    parser.add_argument(
        "--only",
        type=_kinds_to_measure,
        default=(),
        metavar="WHAT",
        help=f"measure only some of {', '.join(WHAT)}",
    )
    parser.add_argument("--mesh", type=_mesh, default=(), metavar="AXES", help="mesh, such as data=4,model=2")
    parser.add_argument(
        "--sizes", type=_sizes, default=(), metavar="BYTES", help="sizes of collectives, such as 100k,1M,16M"
    )
    parser.add_argument(
        "--seconds",
        type=duration,
        default=SECONDS,
        metavar="S",
        help=f"seconds to spend (default: {SECONDS:.0f})",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    parser.add_argument(
        "--force", action="store_true", help="measure even if something uses this machine's devices"
    )
    cluster = parser.add_argument_group("on a cluster, where each host runs the command; process 0 prints")
    cluster.add_argument("--coordinator", type=_address, metavar="HOST:PORT", help="where process 0 listens")
    cluster.add_argument("--processes", type=int, metavar="N", help="number of processes")
    cluster.add_argument("--process", type=int, metavar="I", help="number of this process, from 0")
    cluster.add_argument(
        "--wait",
        type=duration,
        default=WAIT,
        metavar="S",
        help=f"seconds to wait for other processes (default: {WAIT:.0f})",
    )
    cluster.add_argument(
        "--alone", action="store_true", help="measure this process's devices only, even inside a job"
    )
    trying = parser.add_argument_group("to try it on CPUs")
    trying.add_argument("--devices", type=processes.count, metavar="N", help="devices per process")
    trying.add_argument("--hosts", type=processes.count, metavar="N", help="processes, all on this machine")


def main(arguments: argparse.Namespace) -> int:
    team = _team(arguments)
    if find_spec("jax") is None:
        raise UserError("a probe needs JAX: pip install 'jaxtop[jax]'", COULD_NOT)
    if not arguments.force and (who := _user_of_devices(is_cpu=team.devices is not None)):
        raise UserError(
            f"{who}: a probe would disturb it and measure wrong values; wait until it ends, or use --force",
            COULD_NOT,
        )
    processes.end_with_sigterm()
    asked = ProbeRequest(arguments.seconds, arguments.wait, arguments.only, arguments.mesh, arguments.sizes)
    progress = ProbeProgress()
    began = time.monotonic()
    try:
        heard = probe_processes.run(team, asked, progress.show)
    finally:
        progress.end()
    if heard.plan is None or not heard.reports:
        note("measured; process 0 has the result")
        return NONE_SLOW
    from jaxtop.features.probe.table import lines  # heavy: errors above must be fast
    from jaxtop.features.probe.verdict import result

    probe = result(
        heard.plan, heard.reports, __version__, round(time.time() * 1000), time.monotonic() - began
    )
    saved_probe.keep(probe)
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(probe), indent=2).decode())
    else:
        print("\n".join(lines(probe)))
    return SOME_SLOW if probe.slow else NONE_SLOW


def _team(arguments: argparse.Namespace) -> probe_processes.ProcessesToStart:
    joins = arguments.coordinator is not None
    if not joins and (arguments.processes is not None or arguments.process is not None):
        raise UserError("--processes and --process need --coordinator HOST:PORT", COULD_NOT)
    there = arguments.processes
    if there is not None and not 0 <= (arguments.process or 0) < there:
        raise UserError(
            f"--process {arguments.process or 0} of --processes {there}: they count from 0", COULD_NOT
        )
    if (arguments.hosts is not None) + joins + arguments.alone > 1:
        raise UserError("--hosts starts all processes here; it goes with neither --coordinator nor --alone")
    if arguments.hosts is not None or (arguments.devices is not None and not joins):
        hosts = arguments.hosts or 1
        return probe_processes.ProcessesToStart(hosts, arguments.devices or 4, is_alone=hosts == 1)
    return probe_processes.ProcessesToStart(
        devices=arguments.devices,
        coordinator=arguments.coordinator,
        processes=arguments.processes,
        process=arguments.process,
        is_alone=arguments.alone,
    )


def _user_of_devices(*, is_cpu: bool) -> str | None:
    """Return which live run of this user, or which process on a GPU, uses the devices; None if none does."""
    for found in runfiles.find():
        hello = found.hello
        if found.is_stale or Namespace(hello.boot, hello.pid_namespace) != here():
            continue  # a shared home has run files of other machines
        name = legible(hello.name or hello.run or hello.agent)
        return f"the run {name} (pid {hello.pid}) uses this machine's devices"
    if is_cpu or os.environ.get("JAX_PLATFORMS", "").strip().lower() == "cpu":
        return None
    import pynvml

    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        for gpu in _visible(pynvml):
            for process in pynvml.nvmlDeviceGetComputeRunningProcesses(gpu):
                return f"process {process.pid} uses GPU {pynvml.nvmlDeviceGetIndex(gpu)}"
    return None


def _visible(pynvml: Any) -> list[Any]:
    """Return the GPUs that JAX will see, without names in CUDA_VISIBLE_DEVICES that NVML does not find."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    found = []
    for word in (each.strip() for each in named.split(",")):
        with suppress(pynvml.NVMLError):
            if word.isdecimal():
                found.append(pynvml.nvmlDeviceGetHandleByIndex(int(word)))
            elif word:
                found.append(pynvml.nvmlDeviceGetHandleByUUID(word))
    return found


class ProbeProgress:
    """The progress on standard error: one updated line on a terminal, otherwise one line per stage."""

    def __init__(self) -> None:
        self._line = ProgressLine()
        self._last = ""

    def show(self, stage: Stage) -> None:
        self._line.show(f"probing: {stage.name}" + (f" {stage.done} of {stage.total}" if stage.total else ""))
        if stage.name != self._last and not self._line.is_terminal:
            print(f"probing: {stage.name}", file=sys.stderr, flush=True)
        self._last = stage.name

    def end(self) -> None:
        self._line.show("")


def _address(text: str) -> str:
    found = re.fullmatch(r"[^\s:]+:(\d+)|\[[^\s\]]+\]:(\d+)", text)
    if not found or not 0 < int(found[1] or found[2]) < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text} is not HOST:PORT")
    return text


def _kinds_to_measure(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in WHAT:
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(WHAT)}")
    return names


def _mesh(text: str) -> tuple[tuple[str, int], ...]:
    try:
        return meshes.parse(text)
    except meshes.BadMesh as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(amount(size, MIN_MESSAGE_BYTES) for size in text.split(","))
