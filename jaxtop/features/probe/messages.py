"""The messages with which the processes of a run choose the same devices."""

from __future__ import annotations

from msgspec import Struct


class KnownDevice(Struct, frozen=True, omit_defaults=True):
    """A device with what its ranking depends on; None, or no entry in `rates`, where that is unknown.

    `rates` has figures of a probe, by their names in `jaxtop.wire.probing.BENCHES`. `watts` is what the
    device draws, or may draw. `busy` is the share of time in which others use it. `title` is its name for
    people.
    """

    id: int
    process: int = 0
    hostname: str = ""
    platform: str = ""
    kind: str = ""
    uuid: str | None = None
    free_bytes: int | None = None
    total_bytes: int | None = None
    rates: dict[str, float] = {}
    watts: float | None = None
    busy: float | None = None
    title: str = ""


class PlacementRequest(Struct, frozen=True):
    """What the script of a process asks for; it must be the same in all processes."""

    n: int
    prefer: str
    shape: tuple[int, ...]


class Offer(Struct, frozen=True):
    """What a process asks for, and what it knows of its own devices."""

    wanted: PlacementRequest
    devices: tuple[KnownDevice, ...]


class Choice(Struct, frozen=True, omit_defaults=True):
    """The ids of the devices that process 0 has chosen, in the order of the mesh; or why there are none."""

    ids: tuple[int, ...] = ()
    error: str = ""
    # Whether a process did not come in time; otherwise the processes ask for different things.
    is_late: bool = False
