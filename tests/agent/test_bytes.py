"""Bytes per device, to the byte, against sums made by hand from shapes, types and shardings."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from tests.support import PYTHON, ROOT, environment, eventually, free_port, processes, snapshot

pytestmark = pytest.mark.jax


class Row(NamedTuple):
    """Arrays that are alike; `devices` are positions among all devices, the bytes are of one such array."""

    what: str
    shape: tuple[int, ...]
    dtype: str
    devices: list[int]
    axes: dict[str, int]
    spec: list[Any]
    sharding: str
    bytes_global: int
    bytes_per_device: int
    replication: int | None
    count: int = 1
    memory_kind: str = "device"
    is_key: bool = False


def table(devices: int) -> list[Row]:
    """What the processes hold; half of the devices are the first process's."""
    everywhere, data = list(range(devices)), devices // 2
    grid = {"data": data, "model": 2}
    ends = [0, devices - 1]  # of both processes one: each can address a half
    last = [devices - 2, devices - 1]  # the second process's alone
    one, line = {}, {"line": 2}
    # fmt: off
    return [
        Row("over both axes", (64, 32), "float32", everywhere, grid, ["data", "model"],
            "P('data', 'model')", 8192, 8192 // devices, 1),
        Row("over one axis", (64, 32), "bfloat16", everywhere, grid, [None, "model"],
            "P(None, 'model')", 4096, 2048, data),
        Row("one dimension over two axes", (48,), "int8", everywhere, grid, [["data", "model"]],
            "P(('data', 'model'))", 48, 48 // devices, 1),
        Row("replicated", (3, 5, 7), "int8", everywhere, grid, [],
            "P()", 105, 105, devices),
        Row("several alike", (33,), "bool", everywhere, grid, [],
            "P()", 33, 33, devices, count=3),
        Row("the same shape in another type", (33,), "uint8", everywhere, grid, [],
            "P()", 33, 33, devices),
        Row("complex numbers", (10, 3), "complex64", everywhere, grid, [None, None],
            "P(None, None)", 240, 240, devices),
        Row("small floats", (16,), "float8_e4m3fn", everywhere, grid, ["model"],
            "P('model')", 16, 8, data),
        Row("a scalar", (), "float32", everywhere, grid, [],
            "P()", 4, 4, devices),
        Row("nothing at all", (0, 4), "float32", everywhere, grid, [],
            "P()", 0, 0, None),
        Row("devices in another order", (24,), "int32", everywhere[::-1], {"back": devices}, ["back"],
            "P('back')", 96, 96 // devices, 1),
        Row("over devices of two hosts", (6, 2), "float16", ends, line, ["line"],
            "P('line')", 24, 12, 1),
        Row("copies on devices of two hosts", (9,), "float16", ends, line, [],
            "P()", 18, 18, 2),
        Row("beyond the first process's reach", (5, 4), "int16", last, line, [None, "line"],
            "P(None, 'line')", 40, 20, 1),
        Row("on one device", (1000,), "float32", [1], one, [],
            "single", 4000, 4000, 1),
        Row("on one device of the other host", (1000,), "float32", [devices - 1], one, [],
            "single", 4000, 4000, 1),
        Row("a scalar on one device", (), "int8", [0], one, [],
            "single", 1, 1, 1, count=2),
        Row("a random key", (2,), "uint32", [0], one, [],
            "single", 8, 8, 1, is_key=True),
        Row("in the host's memory", (500,), "float32", [0], one, [],
            "single", 2000, 2000, 1, memory_kind="pinned_host"),
    ]
    # fmt: on


@pytest.fixture(scope="module", params=[(1, 4), (2, 4)], ids=["one process", "two processes"])
def seen(request, tmp_path_factory):
    """The table, and the snapshot of a run that holds exactly its arrays."""
    hosts, devices_each = request.param
    home = tmp_path_factory.mktemp("home")
    rows = table(hosts * devices_each)
    (home / "arrays.json").write_text(json.dumps([row._asdict() for row in rows]))
    inherited = {
        name: value for name, value in environment(devices_each).items() if not name.startswith("XDG_")
    }
    variables = {**inherited, "HOME": str(home), "STEER": str(home)}
    coordinator = f"127.0.0.1:{free_port()}" if hosts > 1 else "-"
    program = [PYTHON, ROOT / "tests" / "programs" / "arrays.py", coordinator, hosts]
    with processes(*([*program, i] for i in range(hosts)), env=variables):
        eventually(lambda: all((home / f"ready-{i}").exists() for i in range(hosts)))

        def shown():
            return [len(host["devices"]) for host in snapshot(env=variables)[1].get("hosts", [])]

        eventually(lambda: shown() == [devices_each] * hosts)
        status, document = snapshot(env=variables)
    assert status == 0
    return rows, document


def device_ids(document):
    return [device["id"] for host in document["hosts"] for device in host["devices"]]


def test_every_device_holds_the_bytes_that_a_hand_would_count(seen):
    """Arrays in the host's memory are no device's; deleted ones are nobody's."""
    rows, document = seen
    used = [device["memory"]["used_bytes"] for host in document["hosts"] for device in host["devices"]]
    assert used == [
        sum(
            row.count * row.bytes_per_device
            for row in rows
            if position in row.devices and row.memory_kind == "device"
        )
        for position in range(len(used))
    ]
    sources = {device["memory"]["source"] for host in document["hosts"] for device in host["devices"]}
    assert sources == {"arrays"}


def test_every_array_is_listed_once_with_all_that_is_known_of_it(seen):
    """Also those that span processes, or that only one of them can reach."""
    rows, document = seen
    ids = device_ids(document)
    expected = {
        (
            tuple(row.shape),
            row.dtype,
            row.sharding,
            tuple(ids[position] for position in row.devices),
            row.memory_kind,
            row.replication,
            *row.axes.items(),
        ): (row.count, row.count * row.bytes_global, row.count * row.bytes_per_device)
        for row in rows
    }
    listed: dict[tuple[Any, ...], tuple[int, ...]] = {}
    for array in document["arrays"]:
        alike = (
            tuple(array["shape"]),
            array["dtype"],
            array["sharding"],
            tuple(array["device_ids"]),
            array["memory_kind"],
            array["replication"],
            *axes_of(document, array["mesh"]).items(),
        )
        figures = (array["count"], array["bytes_global"], array["bytes_per_device"])
        listed[alike] = tuple(map(sum, zip(listed.get(alike, (0, 0, 0)), figures, strict=True)))
    assert listed == expected
    assert all(array["name"].startswith("held[") for array in document["arrays"])


def axes_of(document, mesh):
    return {} if mesh is None else {axis["name"]: axis["size"] for axis in document["meshes"][mesh]["axes"]}


def test_every_mesh_is_found_once(seen):
    rows, document = seen
    ids = device_ids(document)
    made = {(tuple(row.axes.items()), tuple(ids[i] for i in row.devices)) for row in rows if row.axes}
    found = [
        (tuple((axis["name"], axis["size"]) for axis in mesh["axes"]), tuple(mesh["device_ids"]))
        for mesh in document["meshes"]
    ]
    assert sorted(found) == sorted(made)
