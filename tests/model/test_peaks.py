"""What devices can compute at most: by the names that JAX has for them, and never more than is their own."""

from __future__ import annotations

import re

import msgspec
import pytest

from jaxtop.model.hardware.chips import CHIPS
from jaxtop.model.hardware.peaks import SET_BY_OWNER, peak_of
from jaxtop.wire import Device
from tests.builders import hello

HELLO = hello(0)


def tera(kind):
    peak = peak_of(HELLO, Device(0, kind, "gpu"))
    return None if peak is None else peak.flops / 1e12


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("NVIDIA GB200", 2500),
        ("NVIDIA GB300", 2500),
        ("NVIDIA B200", 2250),
        ("NVIDIA B300 SXM6 AC", 2250),
        ("NVIDIA GH200 480GB", 989),
        ("NVIDIA H200", 989),
        ("NVIDIA H200 NVL", 835),
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 NVL", 835),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H800 PCIe", 756),
        ("NVIDIA H20", 148),
        ("NVIDIA A100-SXM4-40GB", 312),
        ("NVIDIA A100 80GB PCIe", 312),
        ("NVIDIA L40S", 362),
        ("NVIDIA L4", 121),
        ("Tesla V100-SXM2-16GB", 125),
        ("Tesla V100S-PCIE-32GB", 130),
        ("Tesla V100-PCIE-16GB", 112),
        ("Tesla T4", 65),
        ("TPU7x", 2307 / 2),  # a device is a core
        ("TPU v3", 123 / 2),
        ("TPU v6 lite", 918),
        ("TPU v5 lite", 197),
        ("TPU v5", 459),
        ("TPU v5p", 459),
        ("TPU v4", 275),
        ("AMD Instinct MI300X", 1307.4),
        ("AMD Instinct MI300X VF", 1307.4),
        ("AMD Instinct MI325X", 1307.4),
        ("AMD Instinct MI300A", 980.6),
        ("AMD Instinct MI350X", 2306.9),
        ("AMD Instinct MI355X", 2516.6),
        ("NVIDIA GeForce RTX 4090", 165.2),
        ("TPU v4 lite", 137),
        ("TPU v5e", 197),
        ("TPU v6e", 918),
        ("TPU7", 2307 / 2),
        ("TPU8i", 1101 / 2),
        ("TPU8t", 996.1),
        ("A100-SXM4-40GB", 312),
        ("AMD Instinct MI250X", 191.5),
    ],
)
def test_the_peak_is_the_makers_for_dense_matrices(kind, expected):
    assert tera(kind) == expected


@pytest.mark.parametrize(
    "kind",
    [
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",  # a seventh of it
        "NVIDIA H100 80GB HBM3 MIG 3g.40gb",
        "NVIDIA RTX A1000",
        "NVIDIA GB10",
        "NVIDIA H100 MIG 1g.10gb",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "GRID A100X-40C",
        "NVIDIA A100X",
        "NVIDIA H100 NVL 2",
        "TPU v7",
        "TPU v8",
        "TPU v5x",
        "TPU v6",
        "gfx942:sramecc+:xnack-",
        "gfx950",
        "AMD Instinct MI300",
        "AMD Instinct MI308X",
        "AMD Instinct MI250X / MI250",
        "cpu",
    ],
)
def test_what_is_only_called_alike_has_no_peak(kind):
    assert tera(kind) is None


def test_the_owners_rates_take_precedence_over_the_table():
    hello = msgspec.structs.replace(HELLO, peak_flops=5e13)
    peak = peak_of(hello, Device(0, "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "gpu"))
    assert (peak.flops, peak.source) == (5e13, SET_BY_OWNER)


def test_devices_that_share_a_chip_share_its_peak():
    cores = tuple(Device(i, "TPU v4", "tpu", coords=(i // 2, 0, 0), core_on_chip=i % 2) for i in range(4))
    hello = msgspec.structs.replace(HELLO, devices=cores)
    assert [peak_of(hello, each).flops for each in cores] == [275e12 / 2] * 4


def test_gpus_do_not_share_a_chip_whatever_xla_calls_their_place():
    """In XLA their coords are ordinals, which may repeat."""
    pair = tuple(Device(i, "NVIDIA H200", "gpu", coords=(0,)) for i in range(2))
    hello = msgspec.structs.replace(HELLO, devices=pair)
    assert [peak_of(hello, each).flops for each in pair] == [989e12] * 2


def test_each_kind_is_in_the_table_once_and_rates_rise_as_types_shrink():
    names = [
        "NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA H200", "NVIDIA H200 NVL",
        "NVIDIA B200", "NVIDIA GB200", "TPU v5", "TPU v5 lite", "TPU v4", "TPU v4 lite", "TPU7x",
        "AMD Instinct MI300X",
    ]  # fmt: skip
    for name in names:
        assert sum(re.fullmatch(chip.kinds, name) is not None for chip in CHIPS) == 1
    for chip in CHIPS:
        rates = [rate for rate in (chip.single, chip.half, chip.fp8, chip.fp4) if rate is not None]
        assert rates == sorted(rates), chip
        assert chip.page and (chip.links is None or chip.links in {4, 6, 7, 12, 18})


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", 3.35e12),
        ("NVIDIA H200", 4.8e12),
        ("NVIDIA A100-SXM4-40GB", 1.555e12),
        ("NVIDIA A100-SXM4-80GB", 2.039e12),
        ("NVIDIA A100 80GB PCIe", 1.935e12),
        ("NVIDIA GH200 480GB", None),  # sold with two kinds of memory
        ("TPU v4", 1.228e12),
        ("TPU v3", 0.45e12),  # a device is a core
    ],
)
def test_the_bandwidth_of_the_memory_is_the_makers(kind, expected):
    assert peak_of(HELLO, Device(0, kind, "gpu")).bytes == expected
