"""Meshes that differ between hosts of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.arrays.meshes import mesh_view
from jaxtop.model.finding import Evidence, Finding, Proof, Severity, Subject
from jaxtop.model.findings.rule import Rule
from jaxtop.model.naming.sentences import acting, host_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.host import Host
    from jaxtop.wire import Mesh

# Of the meshes that only some hosts have, this many of the same axes are compared.
MAX_MESHES = 16


class _SpanningMesh(NamedTuple):
    """A mesh that spans hosts, with the hosts that have arrays on it."""

    mesh: Mesh
    hosts: list[Host]


def _mesh_mismatch(facts: RunFacts) -> Iterator[Finding]:
    """Yield a finding where hosts have different meshes of the same axis names over each other's devices.

    Each of the two lacks the mesh of the other: a program that uses both has both on all hosts.
    """
    hosts = [view.host for view in facts.present if view.host.arrays.meshes]
    by_mesh: dict[int, _SpanningMesh] = {}
    for host in hosts:
        for mesh in host.arrays.meshes:
            by_mesh.setdefault(id(mesh), _SpanningMesh(mesh, [])).hosts.append(host)
    by_axes: dict[tuple[str, ...], list[_SpanningMesh]] = {}
    for held in by_mesh.values():
        if len(held.hosts) < len(hosts):  # what all have is the same on all
            by_axes.setdefault(tuple(sorted(name for name, _ in held.mesh.axes)), []).append(held)
    for axes, all_held in by_axes.items():
        for i, one in enumerate(all_held[:MAX_MESHES]):
            for other in all_held[i + 1 : MAX_MESHES]:
                if _contradict(one, other):
                    yield _mesh_finding(axes, *sorted((one, other), key=lambda each: -len(each.hosts)))
                    return


def _contradict(one: _SpanningMesh, other: _SpanningMesh) -> bool:
    """Return whether each mesh has a host that lacks the other mesh, although its devices are in it."""
    return _lacks(one, other) and _lacks(other, one)


def _lacks(one: _SpanningMesh, other: _SpanningMesh) -> bool:
    """Return whether a host of the first lacks the other mesh, although all its devices are in it."""
    have = {host.agent for host in other.hosts}
    places = mesh_view("", other.mesh).positions
    return any(
        host.agent not in have and host.hello and all(device.id in places for device in host.devices)
        for host in one.hosts
    )


def _mesh_finding(axes: tuple[str, ...], most: _SpanningMesh, few: _SpanningMesh) -> Finding:
    sizes = [" × ".join(f"{name} {size}" for name, size in held.mesh.axes) for held in (most, few)]
    how = "another order of devices" if sizes[0] == sizes[1] else sizes[1]
    return Finding(
        Severity.CRITICAL,
        0.8,
        f"{acting(few.hosts, 'uses', 'use')} another mesh than {host_names(most.hosts)}: "
        f"{sizes[0]} against {how}",
        Subject.of(few.hosts[0], axis=", ".join(axes)),
        about=", ".join(axes),
        evidence=(
            Evidence(f"mesh of {host_names(most.hosts)}", sizes[0], source="live arrays"),
            Evidence(f"mesh of {host_names(few.hosts)}", sizes[1], source="live arrays"),
        ),
        proof=Proof("mesh"),
    )


def _meshes(facts: RunFacts) -> list[object]:
    hosts = [view.host for view in facts.present]
    return [each for host in hosts for each in (host.hello, host.arrays.meshes)]


RULES = (
    Rule(
        name="mesh_mismatch",
        title="Meshes differ",
        threshold="for 20 s two hosts have arrays on meshes of the same axes over each other's devices, and "
        "each lacks the mesh of the other",
        rationale="JAX assumes that all processes make the same mesh: different ones exchange the wrong "
        "pieces, or wait for each other for ever.",
        source="meshes of live arrays",
        advice="Make the mesh in the same way on all processes: with jax.make_mesh, or from jax.devices() "
        "in its own order; not from local devices or from a set.",
        check=_mesh_mismatch,
        holds_for=20.0,
        explains=("program_mismatch", "stalled", "straggler"),
        inputs=_meshes,
    ),
)
