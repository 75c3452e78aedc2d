"""The inventories of real runs: every collective that the script wrote is there, with groups and bytes."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from jaxtop import wire
from jaxtop.base import keys
from tests.cases import thorough
from tests.made.hlo_texts import members
from tests.support import PYTHON, ROOT, environment, eventually, free_port, processes, viewer

pytestmark = pytest.mark.jax

SCRIPT = ROOT / "tests" / "programs" / "inventory.py"
# What versions of JAX call the program of a pmap.
PMAP = ("jit_call_wrapped", "jit__fun")


@contextmanager
def started(home, hosts, devices):
    """The script on so many processes, its programs launched."""
    keys.load()  # made once, not by each process at the same time
    coordinator = "-" if hosts == 1 else f"127.0.0.1:{free_port()}"
    commands = [[PYTHON, SCRIPT, coordinator, hosts, i] for i in range(hosts)]
    with processes(*commands, env=environment(devices, STEER=str(home))) as running:
        eventually(lambda: all((home / f"ready-{i}").exists() for i in range(hosts)))
        yield running


def named(host, *names):
    return [each for (name, _), each in host.inventories.items() if name in names]


def collective_rows(inventory: wire.Inventory) -> list[tuple]:
    found = [
        (each.kind, each.source, each.bytes, members(inventory.groups[each.groups]), each.times)
        for each in inventory.collectives
    ]
    return sorted(found, key=str)


def has_all(attached, hosts):
    return all(
        named(attached.host(i), "jit_mapped")
        and named(attached.host(i), "jit_sharded")
        and named(attached.host(i), *PMAP)
        for i in range(hosts)
    )


@pytest.mark.parametrize(("hosts", "devices"), [(2, 4), thorough(4, 2)])
def test_every_collective_of_a_run_over_several_processes(home, hosts, devices):
    """4 × 6 of float32 on each of 8 devices, 4 of data by 2 of model; the same is told by all processes."""
    with started(home, hosts, devices) as script, viewer() as attached:
        attached.until(lambda: has_all(attached, hosts))
        rows, columns = ((0, 2, 4, 6), (1, 3, 5, 7)), ((0, 1), (2, 3), (4, 5), (6, 7))
        everybody = (tuple(range(8)),)
        for i in range(hosts):
            (mapped,) = named(attached.host(i), "jit_mapped")
            assert collective_rows(mapped) == [
                ("all-gather", "all_gather", 4 * 96, rows, 1),
                ("all-gather", "all_gather", 4 * 96, rows, 1),
                ("all-reduce", "pmax", 96, rows, 5),
                ("all-reduce", "psum", 96, columns, 1),
                ("all-reduce", "psum", 96, everybody, 1),
                ("all-reduce", "psum", 96, rows, 1),
                ("all-to-all", "all_to_all", 96, columns, 1),
                ("collective-permute", "ppermute", 96, rows, 1),
                ("reduce-scatter", "reduce_scatter", 4 * 96, rows, 1),
            ]
            (sharded,) = named(attached.host(i), "jit_sharded")
            assert collective_rows(sharded) == [("all-reduce", "dot_general", 4 * 16 * 4, columns, 1)]
            parallel = named(attached.host(i), *PMAP)
            assert [collective_rows(each) for each in parallel] == [
                [("all-reduce", "psum", 100, everybody, 1)]
            ]
            for each in (mapped, sharded, *parallel):
                local = tuple(device.id for device in attached.host(i).hello.devices)
                assert (each.devices, wire.unpack_ids(each.local_ids)) == (8, local)
                assert (each.rest, each.unread, each.why_not) == (0, 0, "")
        (home / "stop").touch()
        assert [process.wait() for process in script] == [0] * hosts


def test_a_single_process_sends_them_to_a_viewer_that_comes_later(home):
    """And no longer once their program is gone: nothing of ours keeps it."""
    with started(home, 1, 4) as script:
        with viewer() as attached:
            attached.until(lambda: has_all(attached, 1))
        with viewer() as later:
            later.until(lambda: has_all(later, 1))
            (mapped,) = named(later.host(0), "jit_mapped")
            assert mapped.devices == 4
            assert ("all-reduce", "pmax", 96, ((0, 2), (1, 3)), 5) in collective_rows(mapped)
            (home / "forget").touch()
            later.until(lambda: not named(later.host(0), "jit_sharded"))
            assert named(later.host(0), "jit_mapped")
        (home / "stop").touch()
        assert [process.wait() for process in script] == [0]
