"""What a process reports about its programs, as its host then is."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from jaxtop import wire
from jaxtop.model.operations import of_loaded, with_latest

if TYPE_CHECKING:
    from jaxtop.model.host import Host
    from jaxtop.model.state import ClusterState


def about_programs(
    state: ClusterState,
    host: Host,
    message: wire.Programs | wire.Inventory | wire.Operations | wire.Peak,
) -> Host:
    """Return the host after a message about its programs."""
    match message:
        case wire.Programs():
            return _programs(state, host, message)
        case wire.Inventory():
            return _inventory(state, host, message)
        case wire.Operations():
            return host.but(operations=with_latest(host.operations, message))
    return host.but(peaks=with_latest(host.peaks, message))


def _programs(state: ClusterState, host: Host, programs: wire.Programs) -> Host:
    loaded = {(each.name, each.fingerprint) for each in programs.programs}
    inventories = host.inventories
    if not programs.rest and not loaded.issuperset(inventories):
        inventories = MappingProxyType({key: inventories[key] for key in inventories if key in loaded})
        state.layout_changes += 1
    if programs.rest:
        return host.but(programs=programs, inventories=inventories)
    operations, peaks = of_loaded(host.operations, loaded), of_loaded(host.peaks, loaded)
    return host.but(programs=programs, inventories=inventories, operations=operations, peaks=peaks)


def _inventory(state: ClusterState, host: Host, inventory: wire.Inventory) -> Host:
    state.layout_changes += 1
    key = inventory.program, inventory.fingerprint
    first = state.inventories.get(key)
    if first is None or first.groups != inventory.groups or first.collectives != inventory.collectives:
        state.inventories[key] = inventory
    else:  # processes that load the same program share its lists
        inventory = msgspec.structs.replace(inventory, groups=first.groups, collectives=first.collectives)
    return host.but(inventories=MappingProxyType({**host.inventories, key: inventory}))
