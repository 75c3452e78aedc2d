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


class _Published(NamedTuple):
    """Bytes a second that leave a device within its host or slice, and those that leave a whole host."""

    pattern: str
    within: float
    host: float


# A ring of TPUs sends both ways: the bandwidth is that of both directions. A GPU's is that of one.
_TPUS = (
    _Published(r"TPU ?(7x|v7x)", 1.8e11, 1.25e10),
    _Published(r"TPU v6 lite|TPU v6e", 1.8e11, 1.25e10),
    _Published(r"TPU v5 lite|TPU v5e", 9e10, 3.125e9),
    _Published(r"TPU v5p?$", 1.8e11, 6.25e9),
    _Published(r"TPU v4$", 9e10, 6.25e9),
    _Published(r"TPU v3$", 2e11, 6.25e9),
)
_GPUS = (
    _Published(r"\bG?B[23]00\b", 9e11, 4e11),
    _Published(r"\b(PCIe|NVL)\b", 0, 0),  # no NVLink switch: the formulas do not hold
    _Published(r"\bG?H[128]00\b", 4.5e11, 4e11),
    _Published(r"\bA100\b", 3e11, 2e11),
)


def published_link(
    platform: str, kind: str, *, crosses_hosts: bool, devices_per_host: int, members_per_host: int = 1
) -> LinkCost | None:
    """Return what a link of these devices costs according to the book; None where it says nothing.

    On TPUs, hosts of a slice share its links, so crossing hosts costs nothing more. On GPUs, the groups that
    cross hosts at the same time share the network of each host.
    """
    if platform == "tpu":
        found = _matching(_TPUS, kind)
        return LinkCost(TPU_HOP_US, found.within, BOOK) if found else None
    found = _matching(_GPUS, kind)
    if found is None or not found.within:
        return None
    if not crosses_hosts:
        return LinkCost(GPU_STEP_US, found.within, BOOK)
    share = members_per_host / max(1, devices_per_host)
    return LinkCost(NETWORK_STEP_US, min(found.within, found.host * share), BOOK)


def _matching(table: tuple[_Published, ...], kind: str) -> _Published | None:
    return next((each for each in table if re.search(each.pattern, kind, re.IGNORECASE)), None)
