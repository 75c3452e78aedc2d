"""The messages of a process about its programs, folded into its host."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

import msgspec

from jaxtop import wire

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from jaxtop.model.host import Host
    from jaxtop.model.state import ClusterState

# The programs of a process whose operations, or peaks, are stored.
MAX_PROGRAMS = 64

Key = tuple[str, str | None]
OfProgram = TypeVar("OfProgram", bound="wire.Operations | wire.Peak")


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
        case wire.Operations(launches=0):  # what was sent of this program is taken back
            key = message.program, message.fingerprint
            left = {each: shown for each, shown in host.operations.items() if each != key}
            return host.but(operations=MappingProxyType(left))
        case wire.Operations():
            return host.but(operations=_with_latest(host.operations, message))
    return host.but(peaks=_with_latest(host.peaks, message))


def _programs(state: ClusterState, host: Host, programs: wire.Programs) -> Host:
    if programs.rest:  # which others are loaded is unknown
        return host.but(programs=programs)
    loaded = {(each.name, each.fingerprint) for each in programs.programs}
    inventories = host.inventories
    if not loaded.issuperset(inventories):
        inventories = MappingProxyType({key: inventories[key] for key in inventories if key in loaded})
        state.layout_changes += 1
    operations, peaks = _still_loaded(host.operations, loaded), _still_loaded(host.peaks, loaded)
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


def _with_latest(stored: Mapping[Key, OfProgram], message: OfProgram) -> Mapping[Key, OfProgram]:
    """Return what is stored of a process, with a message about one program; only the latest remain."""
    key = message.program, message.fingerprint
    others = [(each, shown) for each, shown in stored.items() if each != key]
    return MappingProxyType(dict([*others, (key, message)][-MAX_PROGRAMS:]))


def _still_loaded(stored: Mapping[Key, OfProgram], loaded: AbstractSet[Key]) -> Mapping[Key, OfProgram]:
    """Return what is stored of the programs that are still loaded."""
    names = {name for name, _ in loaded}
    left = {key for key in stored if key in loaded or (key[1] is None and key[0] in names)}
    return stored if len(left) == len(stored) else MappingProxyType({key: stored[key] for key in left})
