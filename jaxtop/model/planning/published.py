"""Published costs of links, for collectives that neither this run nor a probe has measured.

The figures are those of "How to Scale Your Model" (https://jax-ml.github.io/scaling-book): the chapters on
TPUs (bandwidth of a link, of the data-centre network), sharding (1 µs per hop) and GPUs (NVLink, the network
of a node). The latency of a GPU's step is assumed, of the size that small collectives of NCCL show.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from jaxtop.model.planning.plan import LinkCost

BOOK = "published (the JAX scaling book)"
TPU_HOP_US = 1.0
GPU_STEP_US = 2.0
NETWORK_STEP_US = 10.0
# Of devices that share cores: the time that each device adds until all have met, the middle of what windows
# showed for four to eight devices on two cores (4 to 118 µs); and the bytes that a core copies in a second.
# More cores than this copy no faster: their memory is busy.
WAKE_US, COPIED_BY_CORE, MOST_COPYING = 20.0, 1e10, 10


class _Published(NamedTuple):
    """Bytes a second that leave a device within its host or slice, and those that leave a whole host."""

    pattern: str
    within: float
    host: float | None = None


# A ring of TPUs sends both ways: the bandwidth is that of both directions. A GPU's is that of one.
_TPUS = (
    _Published(r"TPU ?(7x|v7x)", 1.8e11),
    _Published(r"TPU v6 lite|TPU v6e", 1.8e11),
    _Published(r"TPU v5 lite|TPU v5e", 9e10),
    _Published(r"TPU v5p?$", 1.8e11),
    _Published(r"TPU v4$", 9e10),
    _Published(r"TPU v3$", 2e11),
)
# Only of parts with switches of NVLink.
_GPUS = (
    _Published(r"^(?!.*\b(PCIe|NVL)\b).*\bG?B[23]00\b", 9e11, 4e11),
    _Published(r"^(?!.*\b(PCIe|NVL)\b).*\bG?H[128]00\b", 4.5e11, 4e11),
    _Published(r"^(?!.*\bPCIe\b).*\bA100\b", 3e11),
)


def assumed_link(platform: str, shared_cores: int | None) -> LinkCost:
    """Return what is assumed of links where this run shows too little; a bandwidth of 0 is unknown.

    Devices that share cores meet when their threads wake, and copy as fast as the cores do.
    """
    if shared_cores is not None:
        cores = min(shared_cores, MOST_COPYING)
        return LinkCost(WAKE_US, cores * COPIED_BY_CORE, "assumed: copies by shared cores")
    return LinkCost(TPU_HOP_US if platform == "tpu" else GPU_STEP_US, 0.0, "assumed")


def published_link(
    platform: str, kind: str, *, crosses_hosts: bool, share_of_host: float = 1.0
) -> LinkCost | None:
    """Return what a link of these devices costs according to the book; None where it says nothing.

    The hosts of a slice of TPUs share its links, so crossing hosts costs nothing more. Groups of GPUs that
    cross hosts at the same time share the network of each host.
    """
    if platform == "tpu":
        found = _matching(_TPUS, kind)
        return LinkCost(TPU_HOP_US, found.within, BOOK) if found else None
    found = _matching(_GPUS, kind)
    if found is None:
        return None
    if not crosses_hosts:
        return LinkCost(GPU_STEP_US, found.within, BOOK)
    if found.host is None:
        return None
    return LinkCost(NETWORK_STEP_US, min(found.within, found.host * share_of_host), BOOK)


def _matching(table: tuple[_Published, ...], kind: str) -> _Published | None:
    return next((each for each in table if re.search(each.pattern, kind, re.IGNORECASE)), None)
