"""The published figures of each kind of device: the one table for peaks, plans and the documentation.

A kind is JAX's `device_kind`, matched as a whole: an instance of a GPU (MIG), a virtual one and a part that
is only called alike have no figures, never those of a neighbour. The names of TPUs are those of
`jax/_src/tpu_info.py` and `jax/_src/mesh_utils.py`; those of GPUs are what CUDA and HIP call the device
(`StreamExecutorGpuDevice` in openxla/xla). Where HIP gives no name, XLA takes the architecture, such as
"gfx942:sramecc+:xnack-", which several products share: it has no figures.

All figures are of a whole chip, and dense: those for sparse matrices, which makers print too, are twice as
high. `cores` is the number of JAX's devices on a chip: two on TPUs without megacore (v2, v3, 7, 7x, 8i) and
on the MI250X, of which each half is a device.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

NVIDIA = "NVIDIA's data sheet, dense bfloat16"
NVIDIA_HALF = "NVIDIA's data sheet, dense float16"
GOOGLE = "Google Cloud's TPU documentation, bfloat16"
JAX = "JAX's table of TPUs, bfloat16"
AMD = "AMD's data sheet, dense bfloat16"

_CLOUD = "https://cloud.google.com/tpu/docs/"
_INFO = "https://github.com/jax-ml/jax/blob/main/jax/_src/tpu_info.py"
_DATA_CENTER = "https://www.nvidia.com/en-us/data-center/"
_ADA = "NVIDIA Ada GPU architecture, appendix A"
_AMPERE = "NVIDIA Ampere GA102 GPU architecture, appendix A"
_BLACKWELL = "NVIDIA RTX Blackwell GPU architecture, appendix A"
_INSTINCT = "https://www.amd.com/en/products/accelerators/instinct/"


class Chip(NamedTuple):
    """A chip as its maker publishes it: tera-operations a second by type, GB, GB/s. None: not published.

    `half` is bfloat16, or float16 on chips without bfloat16. `single` is float32 as matrices are multiplied
    by default: TF32 on NVIDIA and on AMD's MI300, the matrix rate of float32 on AMD's others. `link` is what
    one link carries in one direction, and `links` how many a chip has: ICI, NVLink, Infinity Fabric.
    `network` is a chip's share of the network between slices (TPU) or hosts (GPU).
    """

    kinds: str
    half: float
    maker: str
    page: str
    single: float | None = None
    fp8: float | None = None
    int8: float | None = None
    fp4: float | None = None
    memory: float | None = None
    bandwidth: float | None = None
    link: float | None = None
    links: int | None = None
    network: float | None = None
    cores: int = 1
    # Whether a switch joins its links to all devices of the host (NVLink): a device sends over all at once.
    has_switch: bool = False

    @property
    def within(self) -> float | None:
        """GB/s that leave a device in a ring: over all links of a switch; on TPUs both ways along an axis."""
        if self.link is None or self.links is None:
            return None
        if self.has_switch:
            return self.link * self.links
        return 2 * self.link if self.kinds.startswith("TPU") else None


# ICI: the links of the JAX scaling book (https://jax-ml.github.io/scaling-book/tpus/); the number of links is
# that of the torus, 4 in two dimensions and 6 in three. The network of a chip is Google Cloud's "data center
# network bandwidth per chip"; v5e: 6.4 Tbps of a pod of 256 chips.
_TPUS = (
    Chip("TPU v2", 45, GOOGLE, _CLOUD + "v2", memory=17.2, bandwidth=700, links=4, cores=2),
    Chip("TPU v3", 123, GOOGLE, _CLOUD + "v3", memory=34.4, bandwidth=900, link=100, links=4, cores=2),
    Chip("TPU v4 lite", 137, JAX, _INFO, memory=8.59, bandwidth=614),
    Chip("TPU v4", 275, GOOGLE, _CLOUD + "v4", int8=275, memory=34.4, bandwidth=1228, link=45, links=6),
    Chip("TPU v5 lite|TPU v5e", 197, GOOGLE, _CLOUD + "v5e", int8=393, memory=17.2, bandwidth=819,
         link=45, links=4, network=3.125),
    Chip("TPU v5p?", 459, GOOGLE, _CLOUD + "v5p", int8=918, fp8=459, memory=102, bandwidth=2765,
         link=90, links=6, network=6.25),
    Chip("TPU v6 lite|TPU v6e", 918, GOOGLE, _CLOUD + "v6e", int8=1836, fp8=918, memory=34.4,
         bandwidth=1638, link=90, links=4),
    Chip("TPU7x?", 2307, GOOGLE, _CLOUD + "tpu7x", fp8=4614, memory=206, bandwidth=7380, link=90, links=6,
         cores=2),
    Chip("TPU8i", 1101, JAX, _INFO, fp8=8808, memory=309, bandwidth=8600, cores=2),
    Chip("TPU8t", 996.1, JAX, _INFO, fp8=5976.9, int8=996.1, memory=231, bandwidth=6400),
)  # fmt: skip
# NVLink: GB/s of a link in one direction; 50 GB/s of the network are a card of 400 Gb/s for each GPU, as in
# NVIDIA's DGX systems. The H800 and A800 have fewer links than NVIDIA documents.
_GPUS = (
    Chip("NVIDIA GB300", 2500, NVIDIA, _DATA_CENTER + "gb300-nvl72", single=1250, fp8=5000, fp4=15000,
         bandwidth=8000, link=50, links=18, network=50, has_switch=True),
    Chip("NVIDIA GB200", 2500, NVIDIA, _DATA_CENTER + "gb200-nvl72", single=1250, fp8=5000, int8=5000,
         fp4=10000, memory=186, bandwidth=8000, link=50, links=18, network=50, has_switch=True),
    Chip("NVIDIA B300( SXM6 AC)?", 2250, NVIDIA, _DATA_CENTER + "hgx", single=1125, fp8=4500, fp4=13500,
         bandwidth=8000, link=50, links=18, network=50, has_switch=True),
    Chip("NVIDIA B200", 2250, NVIDIA, _DATA_CENTER + "hgx", single=1125, fp8=4500, int8=4500, fp4=9000,
         memory=180, bandwidth=8000, link=50, links=18, network=50, has_switch=True),
    Chip("NVIDIA H200 NVL", 835, NVIDIA, _DATA_CENTER + "h200", single=417, fp8=1670, int8=1670, memory=141,
         bandwidth=4800),
    Chip("NVIDIA H200", 989, NVIDIA, _DATA_CENTER + "h200", single=494, fp8=1979, int8=1979, memory=141,
         bandwidth=4800, link=25, links=18, network=50, has_switch=True),
    Chip("NVIDIA GH200 (480GB|120GB)", 989, NVIDIA, _DATA_CENTER + "grace-hopper-superchip", single=494,
         fp8=1979, int8=1979, link=25, links=18, network=50, has_switch=True),  # two kinds of memory
    Chip("NVIDIA H100 NVL", 835, NVIDIA, _DATA_CENTER + "h100", single=417, fp8=1670, int8=1670, memory=94,
         bandwidth=3900),
    Chip("NVIDIA H100 PCIe", 756, NVIDIA, _DATA_CENTER + "h100", single=378, fp8=1513, int8=1513, memory=80,
         bandwidth=2000),
    Chip("NVIDIA H800 PCIe", 756, NVIDIA, _DATA_CENTER + "h100", memory=80, bandwidth=2000),
    Chip("NVIDIA H100( 80GB HBM3)?", 989, NVIDIA, _DATA_CENTER + "h100", single=494, fp8=1979, int8=1979,
         memory=80, bandwidth=3350, link=25, links=18, network=50, has_switch=True),
    Chip("NVIDIA H800", 989, NVIDIA, _DATA_CENTER + "h100", memory=80, bandwidth=3350),
    Chip("NVIDIA H20", 148, NVIDIA, _DATA_CENTER + "hgx", single=74, fp8=296, int8=296, memory=96,
         bandwidth=4000),
    Chip("(NVIDIA )?A100-SXM4-40GB", 312, NVIDIA, _DATA_CENTER + "a100", single=156, int8=624, memory=40,
         bandwidth=1555, link=25, links=12, has_switch=True),
    Chip("(NVIDIA )?A100-SXM4-80GB", 312, NVIDIA, _DATA_CENTER + "a100", single=156, int8=624, memory=80,
         bandwidth=2039, link=25, links=12, has_switch=True),
    Chip("(NVIDIA )?A100-PCIE-40GB", 312, NVIDIA, _DATA_CENTER + "a100", single=156, int8=624, memory=40,
         bandwidth=1555),
    Chip("NVIDIA A100 80GB PCIe", 312, NVIDIA, _DATA_CENTER + "a100", single=156, int8=624, memory=80,
         bandwidth=1935),
    Chip("NVIDIA A800-SXM4-80GB", 312, NVIDIA, _DATA_CENTER + "a100", single=156, int8=624, memory=80,
         bandwidth=2039),
    Chip("NVIDIA A800 80GB PCIe", 312, NVIDIA, _DATA_CENTER + "a100", single=156, int8=624, memory=80,
         bandwidth=1935),
    Chip("NVIDIA A40", 149.7, NVIDIA, _DATA_CENTER + "a40", single=74.8, int8=299.3, memory=48,
         bandwidth=696),
    Chip("NVIDIA A30", 165, NVIDIA, _DATA_CENTER + "products/a30-gpu", single=82, int8=330, memory=24,
         bandwidth=933),
    Chip("NVIDIA A10", 125, NVIDIA, _DATA_CENTER + "products/a10-gpu", single=62.5, int8=250, memory=24,
         bandwidth=600),
    Chip("NVIDIA L40S", 362, NVIDIA, _DATA_CENTER + "l40s", single=183, fp8=733, int8=733, memory=48,
         bandwidth=864),
    Chip("NVIDIA L40", 181, NVIDIA, _DATA_CENTER + "l40", single=90.5, fp8=362, int8=362, memory=48,
         bandwidth=864),
    Chip("NVIDIA L4", 121, NVIDIA, _DATA_CENTER + "l4", single=60, fp8=242, int8=242, memory=24,
         bandwidth=300),
    Chip("Tesla V100-SXM2-16GB", 125, NVIDIA_HALF, _DATA_CENTER + "v100", memory=16, bandwidth=900,
         link=25, links=6),
    Chip("Tesla V100-SXM2-32GB", 125, NVIDIA_HALF, _DATA_CENTER + "v100", memory=32, bandwidth=900,
         link=25, links=6),
    Chip("Tesla V100S-PCIE-32GB", 130, NVIDIA_HALF, _DATA_CENTER + "v100", memory=32, bandwidth=1134),
    Chip("Tesla V100-PCIE-(16|32)GB", 112, NVIDIA_HALF, _DATA_CENTER + "v100", bandwidth=900),
    Chip("Tesla T4", 65, NVIDIA_HALF, _DATA_CENTER + "tesla-t4", int8=130, memory=16, bandwidth=320),
    Chip("NVIDIA GeForce RTX 5090", 209.5, NVIDIA, _BLACKWELL, single=104.8, fp8=419, int8=838, fp4=1676,
         memory=32, bandwidth=1792),
    Chip("NVIDIA GeForce RTX 4090", 165.2, NVIDIA, _ADA, single=82.6, fp8=330.3, int8=660.6, memory=24,
         bandwidth=1008),
    Chip("NVIDIA GeForce RTX 3090", 71, NVIDIA, _AMPERE, single=35.6, int8=284, memory=24, bandwidth=936),
)  # fmt: skip
# Each of seven links carries 64 GB/s one way to one other GPU (76.8 on the MI350 series), so that what a ring
# gets depends on its size.
_AMDS = (
    Chip("AMD Instinct MI355X", 2516.6, AMD, _INSTINCT + "mi350/mi355x.html", single=157.3, fp8=5033.2,
         int8=5033.2, fp4=10066.3, memory=288, bandwidth=8000, link=76.8, links=7),
    Chip("AMD Instinct MI350X", 2306.9, AMD, _INSTINCT + "mi350/mi350x.html", single=144.2, fp8=4613.7,
         int8=4613.7, fp4=9227.5, memory=288, bandwidth=8000, link=76.8, links=7),
    Chip("AMD Instinct MI325X", 1307.4, AMD, _INSTINCT + "mi300/mi325x.html", single=653.7, fp8=2614.9,
         int8=2614.9, memory=256, bandwidth=6000, link=64, links=7),
    # The virtual function has all 304 compute units: ROCm/rocm-jax issue 298.
    Chip("AMD Instinct MI300X( VF)?", 1307.4, AMD, _INSTINCT + "mi300/mi300x.html", single=653.7, fp8=2614.9,
         int8=2614.9, memory=192, bandwidth=5300, link=64, links=7),
    Chip("AMD Instinct MI300A", 980.6, AMD, _INSTINCT + "mi300/mi300a.html", single=490.3, fp8=1961.2,
         int8=1961.2, memory=128, bandwidth=5300),
    Chip("AMD Instinct MI250X", 383, AMD, _INSTINCT + "mi200/mi250x.html", single=95.7, int8=383, memory=128,
         bandwidth=3276, cores=2),
    Chip("AMD Instinct MI210", 181, AMD, _INSTINCT + "mi200/mi210.html", single=45.3, int8=181, memory=64,
         bandwidth=1638),
    Chip("AMD Instinct MI100", 92.3, AMD, _INSTINCT + "mi100.html", single=46.1, int8=184.6, memory=32,
         bandwidth=1228),
)  # fmt: skip
CHIPS: tuple[Chip, ...] = (*_TPUS, *_GPUS, *_AMDS)


@lru_cache(maxsize=256)
def chip_of(kind: str) -> Chip | None:
    """Return the chip of this kind of device; None where no figures are published under exactly this name."""
    return next((each for each in CHIPS if re.fullmatch(each.kinds, kind, re.IGNORECASE)), None)
