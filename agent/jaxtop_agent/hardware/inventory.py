"""Print, as JSON, the GPUs of one vendor here; `jaxtop place` runs this in a process that may hang.

    python -m jaxtop_agent.hardware.inventory nvidia|amd

The output is a list of GPUs with their current figures, in the driver's order. An error makes it empty.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def nvidia() -> Iterator[dict[str, Any]]:
    """Yield the GPUs, with the instances of a divided one in its place."""
    from jaxtop_agent.hardware.mapping import cards
    from jaxtop_agent.hardware.nvidia import binding
    from jaxtop_agent.hardware.nvidia_gpu import Gpu, Lost

    nvml = binding()
    nvml.nvmlInit()
    for card in cards(nvml):
        if card is None:
            continue
        for place in card.instances if card.is_divided else (card.place,):
            gpu = Gpu(nvml, place.handle, place.uuid, place.title, place.parent)
            with suppress(Lost, nvml.NVMLError):
                yield {"uuid": place.uuid, "title": place.title, "kind": card.name, "figures": gpu.read()}
            gpu.close()


def amd() -> Iterator[dict[str, Any]]:
    from jaxtop_agent.hardware.amd import gpus

    for number, gpu in enumerate(gpus()):
        yield {"uuid": gpu.uuid or None, "title": f"GPU {number}", "kind": "", "figures": gpu.read()}


def main() -> None:
    found = []
    with suppress(Exception):  # `jaxtop doctor` says what is wrong with a driver
        for each in {"nvidia": nvidia, "amd": amd}[sys.argv[1]]():
            found.append(each)  # noqa: PERF402 - GPUs before an error are listed, too
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
