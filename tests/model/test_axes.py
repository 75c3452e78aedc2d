"""Groups of a program become devices, and the axes of a mesh; checked against what can be counted by hand."""

from __future__ import annotations

import pytest

from jaxtop import wire
from jaxtop.model.arrays.meshes import MeshView
from jaxtop.model.collectives import layout
from jaxtop.model.collectives.groups import assignment, axes_of, best_mesh, expand
from jaxtop.model.host import Host
from jaxtop.model.windows import GroupAxes


def groups(*members: tuple[int, ...]) -> wire.ReplicaGroups:
    sizes = tuple(len(each) for each in members)
    flat = tuple(place for each in members for place in each)
    return wire.ReplicaGroups(sizes if len(set(sizes)) > 1 else sizes[:1], wire.pack_runs(flat))


# The devices 0 to 7: rows are `data`, columns are `model`.
#   0 1 2 3
#   4 5 6 7
MESH = MeshView("r1", (("data", 2), ("model", 4)), tuple(range(8)))
DATA = ((0, 4), (1, 5), (2, 6), (3, 7))
MODEL = ((0, 1, 2, 3), (4, 5, 6, 7))
ALL = (tuple(range(8)),)
CUBE = MeshView("r1", (("a", 2), ("one", 1), ("b", 2), ("c", 2)), tuple(range(8)))


def test_groups_are_listed_as_they_were_written():
    assert expand(groups(*DATA)) == DATA
    assert expand(groups((0,), (1, 2, 3))) == ((0,), (1, 2, 3))
    assert expand(wire.ReplicaGroups((4,), ((0, 8, 1),))) == MODEL


@pytest.mark.parametrize(
    "odd",
    [
        wire.ReplicaGroups((3,), ((0, 8, 1),)),
        wire.ReplicaGroups((0,), ()),
        wire.ReplicaGroups((-1, 3), ((0, 2, 1),)),
        wire.ReplicaGroups((1, 2), ((0, 8, 1),)),
        wire.ReplicaGroups((1,), ((0, 1 << 30, 1),)),
    ],
)
def test_groups_that_do_not_come_out_even_are_unreadable(odd):
    with pytest.raises(wire.Unreadable):
        wire.decode("inventory", wire.encode(wire.Inventory(0, "jit_step", "f", 8, groups=(odd,))))


@pytest.mark.parametrize(
    ("mesh", "members", "names", "is_whole"),
    [
        (MESH, DATA, ("data",), True),
        (MESH, MODEL, ("model",), True),
        (MESH, ALL, ("data", "model"), True),
        (MESH, ((0, 1), (2, 3), (4, 5), (6, 7)), ("model",), False),  # halves of the rows
        (MESH, MODEL[:1], ("model",), False),  # one row only
        (MESH, ((0, 5), (1, 4), (2, 7), (3, 6)), ("data", "model"), False),
        (MESH, tuple((i,) for i in range(8)), (), True),  # each for itself
        (CUBE, ((0, 1, 4, 5), (2, 3, 6, 7)), ("a", "c"), True),
        (CUBE, ((0, 1), (2, 3), (4, 5), (6, 7)), ("c",), True),
    ],
)
def test_groups_are_named_by_the_fewest_axes_that_hold_them(mesh, members, names, is_whole):
    assert axes_of(mesh, members) == GroupAxes(names, is_whole)


def test_axes_follow_the_mesh_and_not_the_ids():
    turned = MeshView("r1", (("x", 4), ("y", 2)), (0, 4, 1, 5, 2, 6, 3, 7))
    assert axes_of(turned, DATA) == GroupAxes(("y",), True)
    assert axes_of(turned, MODEL) == GroupAxes(("x",), True)


def test_groups_of_other_devices_have_no_axes_here():
    assert axes_of(MESH, ((0, 8),)) is None


def test_of_several_meshes_the_one_counts_that_names_most_collectives_exactly():
    flat = MeshView("r1", (("all", 8),), tuple(range(8)))
    assert best_mesh([flat, MESH], [DATA, MODEL, ALL]) is MESH
    assert best_mesh([flat, MESH], [ALL]) is flat  # alike: more bytes are on the first
    assert best_mesh([], [ALL]) is None


def test_a_single_process_knows_where_its_devices_stand():
    assert assignment(4, [(3, 1, 0, 2)], ()) == (3, 1, 0, 2)


def test_processes_together_tell_where_devices_stand():
    """Of the orders that are known, the one in which each process finds its own devices."""
    natural, crossed = (0, 1, 2, 3), (0, 2, 1, 3)
    assert assignment(4, [(0, 1), (2, 3)], (natural,)) == natural
    assert assignment(4, [(0, 1), (2, 3)], (crossed, natural)) == crossed
    assert assignment(4, [(0, 1), (3, 2)], (natural, crossed)) is None
    assert assignment(4, [(0, 1), (3, 2)], (natural, (3, 0, 2, 1))) == (3, 0, 2, 1)


def test_nothing_is_guessed_while_processes_are_missing():
    assert assignment(4, [(0, 1)], ((0, 1),)) is None
    assert assignment(4, [], ((0, 1, 2, 3),)) is None
    assert assignment(4, [(0, 1)], ((2, 3, 0, 1),)) == (2, 3, 0, 1)  # but a mesh tells
    assert assignment(4, [(0, 9)], ((0, 1, 2, 3),)) is None


def test_groups_that_represent_several_count_their_bytes_once():
    """So the mesh with most bytes on it is the one that has them."""
    small, large = wire.Mesh((("x", 2),), ((0, 2),)), wire.Mesh((("y", 2),), ((0, 2),))
    shardings = tuple(wire.Sharding("NamedSharding", "P()", mesh, (), None) for mesh in (0, 1))
    groups = (
        wire.ArrayGroup((), "float32", 0, 300, 300, groups=90),
        wire.ArrayGroup((100,), "float32", 1, 400, 400),
    )
    census = wire.Arrays(1, meshes=(small, large), shardings=shardings, groups=groups, counts=(90, 1))
    found = layout._meshes("r1", [Host("a", arrays=census)])
    assert [mesh.axes[0][0] for mesh in found] == ["y", "x"]
