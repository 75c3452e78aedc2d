"""Stand-ins for drivers and services of hardware that no test machine has; tests set what they say."""

from __future__ import annotations

import atexit
import ctypes
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

SOURCE = Path(__file__).parent / "nvml.c"


@cache
def libraries() -> Path:
    """A folder with the stand-ins of NVIDIA's two libraries, for LD_LIBRARY_PATH; compiled once a process."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("the stand-in for NVIDIA's driver is compiled with gcc, which is not here")
    folder = Path(mkdtemp(prefix="standin-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in ("libnvidia-ml.so.1", "libcuda.so.1"):
        warnings = ("-Wall", "-Wextra", "-Werror")
        subprocess.run(
            [compiler, *warnings, "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", folder / name, SOURCE],
            check=True,
        )
    return folder


@cache
def _loaded() -> ctypes.CDLL:
    """In this process: who looks for them by name finds them, as pynvml does."""
    ctypes.CDLL(os.fspath(libraries() / "libcuda.so.1"))
    return ctypes.CDLL(os.fspath(libraries() / "libnvidia-ml.so.1"))


UUIDS = tuple(f"GPU-{digit * 8}-0000-0000-0000-{digit * 12}" for digit in "0123456789abcdef")
INSTANCES = tuple(f"MIG-{digit * 8}-1111-1111-1111-{digit * 12}" for digit in "0123456789abcdef")

H100 = {
    "name": "NVIDIA H100 80GB HBM3",
    "util": 93,
    "memutil": 41,
    "total": 80 << 30,
    "used": 61 << 30,
    "reserved": 1 << 30,
    "power": 612_345,
    "power_limit": 700_000,
    "energy": 123_456_789,
    "temperature": 64,
    "slowdown": 87,
    "clock": 1755,
    "clock_max": 1980,
    "memory_clock": 2619,
    "reasons": 0,
    "corrected": 3,
    "uncorrected": 0,
    "gpm": 1,
    "gpm3": 34.56,
    "gpm5": 71.2,
    "gpm10": 55.05,
    "gpm20": 1000,
    "gpm21": 250.5,
    "field138.all": 1000,
    "field139.all": 5000,
    "now_us": 1_000_000,
}


class Driver:
    """What the stand-in says; keys as in nvml.c, and `gpu0={…}` for all of one GPU."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._said: dict[str, object] = {"driver": "550.54.15", "gpus": 0}

    def say(self, **more: object) -> None:
        """Set figures, of a GPU with `gpu0={"power": …}`; None takes one away."""
        for name, value in more.items():
            if isinstance(value, dict):
                self._said |= {f"{name}.{figure}": each for figure, each in value.items()}
            else:
                self._said[name] = value
        lines = [f"{name} {value}" for name, value in self._said.items() if value is not None]
        fresh = self.path.with_suffix(".new")
        fresh.write_text("\n".join([*lines, ""]))
        fresh.rename(self.path)

    def have(self, *gpus: dict[str, object]) -> None:
        """So many GPUs, each with its figures over those of an H100."""
        self.say(gpus=len(gpus))
        for place, gpu in enumerate(gpus):
            own = {"uuid": UUIDS[place], "bus": f"00000000:{place + 16:02X}:00.0"}
            self.say(**{f"gpu{place}": H100 | own | gpu})

    @property
    def samples(self) -> int:
        """How many samples of GPM are held."""
        return int(_loaded().standin_samples())


def driver_of_processes(path: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """The stand-in for the processes that a test starts."""
    said = Driver(path / "gpus")
    said.say()
    monkeypatch.setenv("STANDIN_GPUS", str(said.path))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(libraries()))
    return said


def driver(path: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """The stand-in in this process; without a test that sets it up it is a driver that is not loaded."""
    _loaded()
    said = Driver(path / "gpus")
    said.say()
    monkeypatch.setenv("STANDIN_GPUS", str(said.path))
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)
    return said
