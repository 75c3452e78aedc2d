"""Published costs of links, for collectives that neither this run nor a probe has measured.

The figures are those of "How to Scale Your Model" (https://jax-ml.github.io/scaling-book): the chapters on
TPUs (bandwidth of a link, of the data-centre network), sharding (1 µs per hop) and GPUs (NVLink, the network
of a node). The latency of a GPU's step is assumed, of the size that small collectives of NCCL show.
"""

from __future__ import annotations

from jaxtop.features.planning.model.plan import LinkCost
from jaxtop.model.hardware.chips import chip_of

BOOK = "published (the JAX scaling book)"
CLOUD = "published (Google Cloud: network of a chip)"
TPU_HOP_US = 1.0
GPU_STEP_US = 2.0
NETWORK_STEP_US = 10.0
# Of devices that share cores: the time that each device adds until all have met, the middle of what windows
# showed for four to eight devices on two cores (4 to 118 µs); and the bytes that a core copies in a second.
# More cores than this copy no faster: their memory is busy.
WAKE_US, COPIED_BY_CORE, MAX_COPYING = 20.0, 1e10, 10


def assumed_link(platform: str, shared_cores: int | None) -> LinkCost:
    """Return what is assumed of links where this run shows too little; a bandwidth of 0 is unknown.

    Devices that share cores meet when their threads wake, and copy as fast as the cores do.
    """
    if shared_cores is not None:
        cores = min(shared_cores, MAX_COPYING)
        return LinkCost(WAKE_US, cores * COPIED_BY_CORE, "assumed: copies by shared cores")
    return LinkCost(TPU_HOP_US if platform == "tpu" else GPU_STEP_US, 0.0, "assumed")


def published_link(platform: str, kind: str, *, crosses: bool, members_here: float = 1.0) -> LinkCost | None:
    """Return what a link of these devices costs according to the book; None where it says nothing.

    `crosses` says whether the groups leave a slice of TPUs, or what NVLink joins; then each of the
    `members_here` that a group has in there sends with its own share of the network.
    """
    chip = chip_of(kind)
    if chip is None:
        return None
    within = None if chip.within is None else chip.within * 1e9
    step_us = TPU_HOP_US if platform == "tpu" else GPU_STEP_US
    if not crosses:
        return None if within is None else LinkCost(step_us, within, BOOK)
    if chip.network is None or within is None:
        return None
    network = chip.network / chip.cores * 1e9 * members_here
    return LinkCost(NETWORK_STEP_US, min(within, network), BOOK if platform != "tpu" else CLOUD)
