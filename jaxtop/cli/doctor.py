"""`jaxtop doctor`: report what works on this machine, what does not, and why."""

from __future__ import annotations

import json
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from importlib import metadata
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop import __version__
from jaxtop.base import keys, tested_versions
from jaxtop.base.feature import hooks, options_of
from jaxtop.base.units import in_bytes
from jaxtop.cli.machine import costs, drivers
from jaxtop.cli.text.words import legible
from jaxtop.recording.thread import LEAST_FREE
from jaxtop.store import runfiles
from jaxtop.transport import FIRST_PORT

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

OK, NOTE, BAD = "ok", "note", "bad"
# Percent of one core, for an agent with ten thousand arrays and one viewer.
BUDGET_PERCENT = 0.5


@dataclass(frozen=True)
class CheckResult:
    """The result of one check."""

    check: str
    verdict: str
    text: str


class StandIn(NamedTuple):
    """Figures, what reads them, and the stand-in that the reader was tested with."""

    figures: str
    reader: str
    tested_with: str

    @property
    def words(self) -> str:
        return f"{self.figures} ({self.reader}): not tested on a real device, only with {self.tested_with}"


_NVML = "a library with NVML's interface"
_TRACES = "traces made by the tests in the profiler's format"

# The readers and figures that no real device has met, for this command and docs/hardware.md. A row is removed
# once a real reading is kept as test data.
STAND_INS = (
    StandIn("MIG instances", "NVML", _NVML),
    StandIn("XIDs and lost GPUs", "NVML", _NVML),
    StandIn("figures of AMD GPUs", "`/sys`", "a folder with the driver's files"),
    StandIn("figures of TPUs", "the metric service", "a server that speaks its protocol"),
    StandIn("who hangs on TPUs", "the metric service", "a server that speaks its protocol"),
    StandIn("collectives on AMD GPUs", "JAX's profiler", f"{_TRACES}; captured profiles have none"),
    StandIn("collectives on TPUs", "JAX's profiler", f"a captured profile of a v6e, and {_TRACES}"),
    StandIn(
        "memory of AMD GPUs and TPUs",
        "JAX's allocators",
        "figures that others printed on TPUs, and published",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print a JSON object")


def main(arguments: argparse.Namespace) -> int:
    for option in options_of("doctor"):
        if option.is_asked(arguments):
            return int(option.serve(arguments))
    reports = costs.ask()
    findings = [*(finding for check in CHECKS for finding in check()), *_costs(reports)]
    if arguments.json:
        document = {
            "jaxtop": __version__,
            "findings": [asdict(each) for each in findings],
            "costs": [each.as_json() for each in reports],
        }
        print(json.dumps(document, indent=2))
    else:
        width = max(len(finding.check) for finding in findings)
        for each in findings:
            print(f"{each.verdict:<4}  {each.check:<{width}}  {each.text}")
    return int(any(finding.verdict == BAD for finding in findings))


def _versions() -> Iterator[CheckResult]:
    yield CheckResult("python", OK, f"{platform.python_version()} at {sys.executable}")
    yield CheckResult("jaxtop", OK, __version__)
    for name in ("pyzmq", "msgspec", "msgpack", "psutil", "textual", "mcap"):
        try:
            yield CheckResult(name, OK, metadata.version(name))
        except metadata.PackageNotFoundError:
            yield CheckResult(name, BAD, f"is not installed; pip install {name}")


def _encryption() -> Iterator[CheckResult]:
    import zmq

    if zmq.has("curve"):
        yield CheckResult("encryption", OK, f"ZeroMQ {zmq.zmq_version()} with CURVE")
    else:
        yield CheckResult(
            "encryption",
            BAD,
            "this ZeroMQ was built without CURVE, so agents cannot serve viewers; pip install pyzmq",
        )


def _key() -> Iterator[CheckResult]:
    try:
        public = keys.load().public.decode()
    except keys.NoKey as error:
        yield CheckResult("key", BAD, str(error))
        return
    yield CheckResult("key", OK, f"public key {public}")
    guests = keys.authorized()
    if guests:
        yield CheckResult("colleagues", NOTE, f"{len(guests)} keys in authorized_keys may see your runs")


def _run_files() -> Iterator[CheckResult]:
    folder, whys = runfiles.usable()
    yield from (CheckResult("run files", NOTE, why) for why in whys)
    if folder is None:
        help_ = "set XDG_STATE_HOME to a folder that you own" if whys else "there is no home folder; set HOME"
        yield CheckResult("run files", BAD, f"`jaxtop ls` finds nothing: {help_}")
        return
    living = [each for each in runfiles.find() if not each.is_stale]
    yield CheckResult("run files", OK, f"{folder}, {len(living)} live here")
    for each in living:
        if untested := tested_versions.untested(each.hello.jax):
            yield CheckResult(f"pid {each.hello.pid}", NOTE, untested)
        for source, state in each.hello.sources.items():
            if state.startswith("off"):
                yield CheckResult(f"pid {each.hello.pid}", NOTE, f"{source} is {state}")
            elif state.startswith("ignored: "):
                yield CheckResult(f"pid {each.hello.pid}", NOTE, state.removeprefix("ignored: "))


def _settings() -> Iterator[CheckResult]:
    """Check the variables that set the agent, as an agent that is started here would read them."""
    from jaxtop_agent.core import settings  # the part of the agent that needs no JAX

    yield from (CheckResult("settings", NOTE, each) for each in settings.read().ignored)


def _costs(reports: list[costs.CostReport]) -> Iterator[CheckResult]:
    for each in reports:
        is_fine = each.percent is not None and each.percent <= BUDGET_PERCENT
        yield CheckResult(f"pid {each.hello.pid}", OK if is_fine else NOTE, each.words())


def _port() -> Iterator[CheckResult]:
    with socket.socket() as trial:
        try:
            trial.bind(("127.0.0.1", FIRST_PORT))
        except OSError:
            yield CheckResult("port", NOTE, f"{FIRST_PORT} is taken; agents take the next free ones")
        else:
            yield CheckResult("port", OK, f"{FIRST_PORT} is free")


def _features() -> Iterator[CheckResult]:
    for checks in hooks("doctor_checks"):
        yield from checks()


def _jax() -> Iterator[CheckResult]:
    if find_spec("jax") is None:
        yield CheckResult(
            "jax", NOTE, "is not installed here; needed only where programs run: pip install 'jaxtop[jax]'"
        )
        return
    try:
        done = subprocess.run(
            [sys.executable, "-m", "jaxtop_agent.selfcheck"],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        found: dict[str, Any] = json.loads(done.stdout)
    except (subprocess.SubprocessError, json.JSONDecodeError) as error:
        words = getattr(error, "stderr", None) or str(error)
        yield CheckResult("jax", BAD, f"cannot be imported: {words.strip().splitlines()[-1][:200]}")
        return
    yield CheckResult("jax", *_judge(found["jax"]))
    for name, state in found["features"].items():
        yield CheckResult(f"jax: {name}", OK if state == "on" else NOTE, state)


def _judge(version: str) -> tuple[str, str]:
    untested = tested_versions.untested(version)
    return (NOTE, f"{untested}; some sources may be off") if untested else (OK, version)


def _hardware() -> Iterator[CheckResult]:
    makers = ("nvidia", "amd", "tpu")
    for maker, found in drivers.asked("jaxtop_agent.hardware.check", {each: (each,) for each in makers}):
        if isinstance(found, drivers.NoAnswer):
            yield CheckResult(maker, BAD, str(found))
        else:
            for verdict, text in found:
                yield CheckResult(maker, verdict, legible(text))


def _stand_ins() -> Iterator[CheckResult]:
    for each in STAND_INS:
        yield CheckResult("untested", NOTE, each.words.replace("`", ""))


def _demo() -> Iterator[CheckResult]:
    if find_spec("optax") is None:
        yield CheckResult("demo", NOTE, "needs optax: pip install 'jaxtop[demo]'")
    else:
        yield CheckResult("demo", OK, "jaxtop demo")


def _room() -> Iterator[CheckResult]:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    words = f"{folder} has {in_bytes(free)} free"
    if free < 2 * LEAST_FREE:
        yield CheckResult("rewind buffer", NOTE, f"{words}: too little for the rewind buffer; set TMPDIR")
    else:
        yield CheckResult("rewind buffer", OK, words)


def _home() -> Iterator[CheckResult]:
    try:
        folder = keys.config_dir()
    except keys.NoKey:
        return  # already reported
    if folder.exists() and folder.stat().st_mode & 0o022:
        yield CheckResult("config", BAD, f"others can write to {folder}; run: chmod go-w {folder}")


CHECKS: tuple[Callable[[], Iterator[CheckResult]], ...] = (
    _versions, _encryption, _key, _home, _settings, _run_files, _room, _port, _features, _jax, _hardware,
    _stand_ins, _demo,
)  # fmt: skip
