"""The process that compiles: `python -m jaxtop_agent.planning FD`, started by `jaxtop plan --compile`."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

from jaxtop.base.names import reason
from jaxtop.features.planning.messages import Began, CompileRequest, Said, TakenText
from jaxtop.wire.probing import FAILED
from jaxtop_agent.planning.building import build
from jaxtop_agent.planning.lowered_program import CannotCompile, parse, read

# Compiling may take all cores, and the run may be on this machine. At the lowest priority it would never
# end where other processes use all cores.
LESS_URGENT = 10


def main() -> None:
    """Compile each candidate, report it, and exit without JAX's shutdown."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command ends this process
    with suppress(OSError):
        os.nice(LESS_URGENT)
    with os.fdopen(int(sys.argv[1]), "wb") as pipe:
        try:
            work(msgspec.json.decode(sys.stdin.buffer.read(), type=CompileRequest), pipe)
        except CannotCompile as error:
            _fail(str(error))
        except Exception as error:
            _fail(reason(error))
    os._exit(0)


def work(request: CompileRequest, pipe: IO[bytes]) -> None:
    """Take the text of the program that the run has, and compile it for each candidate."""
    import jax

    content, taken = take(request)
    _send(pipe, taken)
    devices = jax.devices("cpu")
    for number, wanted in enumerate(request.wanted):
        _send(pipe, Began(number))
        _send(pipe, build(content, number, wanted, request.axes, devices))


def take(request: CompileRequest) -> tuple[bytes, TakenText]:
    """Return a text whose arguments have the bytes of the running program's; else the newest.

    Of several, it is the one whose shardings name most axes: JAX compiles a program again where its results
    have lost axes of size 1, and the first text still has them. Among equal ones, it is the newest.
    """
    first, why_not = None, ""
    best: tuple[int, bytes, str] | None = None
    for file in request.files:
        content = Path(file).read_bytes()
        try:
            program = read(parse(content))
        except CannotCompile as error:
            why_not = why_not or f"{Path(file).name}: {error}"
            continue
        if request.argument_bytes in {None, program.argument_bytes}:
            if best is None or program.named_axes > best[0]:
                best = program.named_axes, content, file
        elif first is None:
            first = content, file, program.argument_bytes
    if best is not None:
        return best[1], TakenText(best[2])
    if first is None:
        raise CannotCompile(why_not)
    content, file, own = first
    running = f"those of the running program {request.argument_bytes:,}"
    note = f"its arguments take {own:,} bytes of a device, {running}"
    return content, TakenText(file, note)


def _send(pipe: IO[bytes], message: Said) -> None:
    pipe.write(msgspec.json.encode(message) + b"\n")
    pipe.flush()


def _fail(why: str) -> None:
    sys.stderr.write(f"{why}\n")
    sys.stderr.flush()
    os._exit(FAILED)


if __name__ == "__main__":
    main()
