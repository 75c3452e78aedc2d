"""Print, as JSON, what one vendor's driver offers here; `jaxtop doctor` runs this in a process that may hang.

    python -m jaxtop_agent.hardware.check nvidia|amd|tpu

The output is a list of pairs: a verdict ("ok", "note" or "bad") and a text.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxtop_agent.hardware.reader import Off, listed

if TYPE_CHECKING:
    from collections.abc import Iterator

OK, NOTE, BAD = "ok", "note", "bad"
LOST = "see dmesg for its XID; a reset may help: nvidia-smi --gpu-reset, or a reboot"
PERMISSION_HINT = "an administrator can allow it: options nvidia NVreg_RestrictProfilingToAdminUsers=0"


def nvidia() -> Iterator[tuple[str, str]]:
    from jaxtop_agent.hardware.nvidia import binding, why_no_driver

    try:
        nvml = binding()
    except Off as off:
        yield NOTE, f"no GPU figures: {off}"
        return
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        yield NOTE, f"no GPU figures: {why_no_driver(nvml, error)}"
        return
    count = nvml.nvmlDeviceGetCount()
    yield OK, f"driver {nvml.nvmlSystemGetDriverVersion()}, {count} GPU{'s' if count != 1 else ''}"
    for index in range(count):
        yield from _gpu(nvml, index)


def _gpu(nvml: Any, index: int) -> Iterator[tuple[str, str]]:
    from jaxtop_agent.hardware.mapping import place_of
    from jaxtop_agent.hardware.nvidia_gpu import Gpu, Lost

    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        place, name = place_of(nvml, handle), nvml.nvmlDeviceGetName(handle)
        gpu = Gpu(nvml, handle, place.uuid, place.title)
        gpu.read()
    except (Lost, nvml.NVMLError) as error:
        why = str(error) if isinstance(error, Lost) else f"does not answer: {error}"
        yield BAD, f"GPU {index} {why}; {LOST}"
        return
    gpu.close()
    closed = {each for each, code in gpu.refused.items() if code == nvml.NVML_ERROR_NO_PERMISSION}
    missing = listed(gpu.refused.keys() - closed)
    yield OK, f"{place.title}: {name}" + (f"; it does not offer {missing}" if missing else "")
    if closed:
        yield NOTE, f"GPU {index}: no permission for {listed(closed)}; {PERMISSION_HINT}"
    with suppress(nvml.NVMLError):
        if nvml.nvmlDeviceGetMigMode(handle)[0]:
            yield (
                NOTE,
                f"GPU {index} is divided (MIG): instances have no utilisation and no power of their own",
            )


def amd() -> Iterator[tuple[str, str]]:
    from jaxtop_agent.hardware.amd import gpus

    if not Path("/dev/kfd").exists():
        yield NOTE, "no AMD GPU here (no /dev/kfd; in a container, start it with --device /dev/kfd)"
        return
    count = len(gpus())
    if count:
        yield OK, f"{count} GPU{'s' if count != 1 else ''}"
    else:
        yield NOTE, "no AMD GPU may be used here; you may have to be in the groups video and render"


def tpu() -> Iterator[tuple[str, str]]:
    from jaxtop_agent.hardware.tpu import Tpu, ports

    if not any(Path("/dev").glob("accel[0-9]*")) and not any(Path("/dev/vfio").glob("[0-9]*")):
        yield NOTE, "no TPU here (no /dev/accel0, no /dev/vfio/0)"
        return
    try:
        Tpu(())
    except Off as off:
        yield NOTE, f"no TPU figures now: {off}; the service is there while a program runs on the TPU"
    else:
        yield OK, f"the metric service answers on {', '.join(map(str, ports()))}"


def main() -> None:
    """Print the findings; an unexpected error keeps those found before it."""
    found = []
    try:
        for each in {"nvidia": nvidia, "amd": amd, "tpu": tpu}[sys.argv[1]]():
            found.append(each)  # noqa: PERF402 - findings before an error are reported, too
    except Exception as error:
        found.append((NOTE, f"{type(error).__name__}: {error}"))
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
