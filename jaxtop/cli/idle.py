"""Detect whether the devices of this machine are in use."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from jaxtop import processes, runfiles
from jaxtop.cli.words import legible


def in_use(*, is_cpu: bool) -> str | None:
    """Return which live run of this user, or which process on a GPU, uses the devices; None if none does."""
    for found in runfiles.find():
        hello = found.hello
        if found.is_stale or processes.Namespace(hello.boot, hello.pid_namespace) != processes.here():
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
