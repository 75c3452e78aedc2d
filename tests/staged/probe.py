"""Results of a probe for devices of the stage."""

from __future__ import annotations

from jaxtop.wire.probing import SCHEMA, FigureSummary, Probe, ProbedDevice
from tests.builders import hello

PROBED = {
    "matrix_flops_per_s": FigureSummary(2e12, 1e9, 10),
    "memory_bytes_per_s": FigureSummary(1024**4, 1e9, 10),
}


def probe(platform="cpu", devices=(), collectives=()):
    return Probe(
        SCHEMA,
        "0.1.0",
        "0.10.2",
        1,
        30.0,
        platform,
        1,
        (),
        "bfloat16",
        4096,
        1,
        1,
        tuple(devices),
        tuple(collectives),
        (),
    )


def of_device(host=0, number=0, **other):
    """The first device of a host, as it was probed."""
    said = hello(host)
    device = said.devices[number]
    known = {
        "id": device.id,
        "local_id": device.local_id,
        "process": host,
        "hostname": said.hostname,
        "platform": device.platform,
        "kind": device.kind,
        "uuid": device.uuid,
        "figures": PROBED,
    }
    return ProbedDevice(**(known | other))
