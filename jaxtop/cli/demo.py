"""`jaxtop demo`: run a real multi-process JAX training on this machine's CPU."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from contextlib import ExitStack
from difflib import get_close_matches
from importlib.util import find_spec
from math import prod
from typing import TYPE_CHECKING

from jaxtop.base import keys, meshes
from jaxtop.base.meshes import BadMesh
from jaxtop.cli import hangup, terminal
from jaxtop.cli.errors import UserError
from jaxtop.cli.machine import processes
from jaxtop.cli.text.words import amount, number
from jaxtop.sources import LiveSource, Seed
from jaxtop.store import runfiles
from jaxtop_agent.demo import MODEL_SIZES, faults
from jaxtop_agent.demo.faults import schedule

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from typing import IO

    from jaxtop.base.meshes import Axes

DEVICES = 4
# JAX itself ends the survivors of a lost process after 100 seconds. After SIGTERM they need far less.
PATIENCE = 10.0
# Where the terminal is gone, the demo itself has no more time.
HANGUP_PATIENCE = 1.0
# On eight devices a third of it is free while the training takes a step.
LIMIT = 64 << 20
SAVES = ("--save-every", "150")
_SECONDS = number("between 0 and 3600 seconds", 0, 3600)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--hosts", type=processes.count, default=2, metavar="N", help="processes (default: 2)"
    )
    parser.add_argument(
        "--devices", type=processes.count, metavar="N", help="devices per process (default: 4)"
    )
    parser.add_argument(
        "--mesh", metavar="AXES", help="mesh of the axes data and model, such as data=4,model=2; all devices"
    )
    parser.add_argument(
        "--duration", type=float, metavar="S", help="seconds to train (default: until Ctrl-C)"
    )
    parser.add_argument(
        "--record",
        metavar="DIR",
        help="write a black box of each process to this folder, for `jaxtop replay`",
    )
    parser.add_argument(
        "--headless", action="store_true", help="print the output of the training instead of opening the app"
    )
    parser.add_argument(
        "--fault",
        metavar="NAME",
        help="plant a fault, to see how it is found; `list` prints the names, `tour` plants several in turn",
    )
    parser.add_argument(
        "--fault-after",
        type=_SECONDS,
        metavar="S",
        help="healthy seconds before the fault begins (default: 20; 80 for loss_spike)",
    )
    parser.add_argument(
        "--memory-limit",
        type=_limit,
        default=LIMIT,
        metavar="SIZE",
        help="simulated limit of the memory of each device, or `none` (default: 64M); nothing enforces it",
    )


def main(arguments: argparse.Namespace) -> int:
    if arguments.fault == "list":
        for fault in faults.FAULTS:
            print(f"{fault.name:<21} {fault.text}")
        print(f"{schedule.TOUR:<21} {schedule.TOUR_TEXT}")
        return 0
    if arguments.fault is not None and arguments.fault not in (*faults.FAULTS_BY_NAME, schedule.TOUR):
        near = get_close_matches(arguments.fault, (*faults.FAULTS_BY_NAME, schedule.TOUR), 1, 0.0)[0]
        raise UserError(f"there is no fault {arguments.fault!r}: did you mean {near}? --fault list names all")
    missing = [name for name in ("jax", "optax") if find_spec(name) is None]
    if missing:
        raise UserError(f"the demo needs {' and '.join(missing)}: pip install 'jaxtop[demo]'")
    count = arguments.hosts
    devices, words = _mesh(arguments)
    processes.end_with_sigterm()
    with ExitStack() as stack:
        errors: list[IO[str]] = [
            stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(arguments.hosts)
        ]
        with processes.uninterrupted():
            hosts = start(
                arguments.hosts,
                devices,
                arguments.duration,
                errors,
                arguments.record,
                more=[*words, *SAVES, *fault_words(arguments.fault, arguments.fault_after)],
                limit=arguments.memory_limit,
            )
            stack.callback(stop, hosts)
        hangup.watch([hangup.OUTPUT] if arguments.headless else hangup.STREAMS)
        size = f"{count} process{'es' * (count > 1)} with {devices} device{'s' * (devices > 1)} each"
        if not arguments.headless and terminal.is_there():
            return _watch(hosts, errors, f"starting {size}")
        print(f"demo: {size}; in another terminal: jaxtop ls, jaxtop snapshot", flush=True)
        threading.Thread(target=_show, args=(hosts[0].stdout,), daemon=True).start()
        return _wait(hosts, errors)


def _limit(text: str) -> int | None:
    return None if text == "none" else amount(text, 1)


def _mesh(arguments: argparse.Namespace) -> tuple[int, list[str]]:
    """Return the devices of each process, and the words that give a training process its mesh."""
    if arguments.mesh is None:
        return arguments.devices or DEVICES, []
    try:
        axes = meshes.parse(arguments.mesh)
        words = mesh_words(axes)
    except BadMesh as error:
        raise UserError(str(error)) from None
    total = prod(size for _, size in axes)
    devices, left = divmod(total, arguments.hosts)
    if left or arguments.devices not in (None, devices):
        each = "" if arguments.devices is None else f" of {arguments.devices} devices"
        raise UserError(
            f"a mesh of {total} devices does not fit {arguments.hosts} processes{each}: give other --hosts"
        )
    return devices, words


def mesh_words(axes: Axes) -> list[str]:
    """Return the words that give a training process this mesh.

    Raises:
        BadMesh: The demo's model cannot be placed on it.
    """
    sizes = dict(axes)
    if unknown := next((name for name in sizes if name not in ("data", "model")), None):
        raise BadMesh(f"the demo has the axes data and model, and no {unknown}")
    model = sizes.get("model", 1)
    if model not in MODEL_SIZES:
        raise BadMesh(f"model={model} does not divide the demo's heads: it can be 1, 2 or 4")
    return ["--model", str(model)]


def _watch(hosts: list[subprocess.Popen[bytes]], errors: list[IO[str]], starting: str) -> int:
    """Show the processes in the app as they start; leaving the app ends them."""
    print(f"demo: {starting}", flush=True)  # the app takes seconds to import on a busy machine
    output = hosts[0].stdout
    assert output is not None
    faults_begun: list[str] = []

    def read() -> None:  # a full pipe would block the training
        faults_begun.extend(line.decode(errors="replace") for line in output if line.startswith(b"fault "))

    threading.Thread(target=read, daemon=True).start()

    def open_source() -> LiveSource | None:
        ended = [(i, host.returncode) for i, host in enumerate(hosts) if host.poll()]
        if len(ended) == len(hosts):
            index, status = ended[0]
            how = f"{processes.how(status)}{processes.last_words(errors[index])}"
            raise UserError(f"the demo did not start: process {index} {how}")
        return source_of(hosts)

    from jaxtop.cli.live import app  # heavy: errors must be fast

    app.show(open_source, awaits=starting)
    print("".join(faults_begun), end="")
    return 0


def source_of(hosts: Sequence[subprocess.Popen[bytes]]) -> LiveSource | None:
    """Return a source of the processes whose agents have announced themselves; None if none has."""
    pids = {host.pid for host in hosts}
    found = [each for each in runfiles.find() if each.hello.pid in pids]
    if not found:
        return None
    return LiveSource([Seed(each.hello.agent, hello=each.hello) for each in found], keys.load())


def _show(output: IO[bytes]) -> None:
    """Print the lines of the training, without what JAX's transport reports about its connections."""
    for line in output:
        if not line.startswith(b"[Gloo]"):
            print(line.decode(errors="replace"), end="", flush=True)


def discard_output(host: subprocess.Popen[bytes]) -> None:
    """Read what the training prints, and forget it: a full pipe would block it."""
    threading.Thread(target=lambda: deque(host.stdout or (), maxlen=0), daemon=True).start()


def fault_words(fault: str | None, after: float | None) -> list[str]:
    """Return the words of a training process that plant this fault."""
    when = [] if after is None else ["--fault-after", str(after)]
    return [] if fault is None else ["--fault", fault, *when]


def start(
    hosts: int,
    devices: int,
    duration: float | None,
    errors: list[IO[str]],
    record: str | None = None,
    *,
    more: Sequence[str] = (),
    limit: int | None = None,
) -> list[subprocess.Popen[bytes]]:
    """Start the processes of the run; the demo prints the output of the first."""
    coordinator = f"127.0.0.1:{processes.free_port()}"
    time_limit = [] if duration is None else ["--duration", str(duration)]
    environment = processes.on_cpu(devices)
    if record is not None:
        environment["JAXTOP_RECORD"] = record
    if limit is not None:
        environment["JAXTOP_SIMULATED_LIMIT"] = str(limit)
    started = []
    for index in range(hosts):
        place = ["--process", index, "--processes", hosts, "--coordinator", coordinator, "--devices", devices]
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "jaxtop_agent.demo.train", *map(str, place), *time_limit, *more],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if index == 0 else subprocess.DEVNULL,
                stderr=errors[index],
                preexec_fn=processes.die_with_parent,  # noqa: PLW1509 - this process has only one thread
            )
        )
    return started


def stop(hosts: list[subprocess.Popen[bytes]]) -> None:
    """End the processes, cleanly if possible."""
    end = time.monotonic() + (HANGUP_PATIENCE if hangup.is_gone() else PATIENCE)
    for host in hosts:
        if host.poll() is None:
            host.send_signal(signal.SIGCONT)  # a stopped process would not handle the next signal
            host.terminate()
    for host in hosts:
        try:
            host.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            host.kill()
            host.wait()


def _wait(hosts: list[subprocess.Popen[bytes]], errors: list[IO[str]]) -> int:
    waiting = dict(enumerate(hosts))
    failed = 0
    while waiting:
        for index, host in list(waiting.items()):
            status = host.poll()
            if status is None:
                continue
            del waiting[index]
            if status:
                failed = failed or 1
                print(
                    f"demo: process {index} {processes.how(status)}{processes.last_words(errors[index])}",
                    file=sys.stderr,
                )
        time.sleep(0.1)
    return failed
