"""Addresses that are dialled in place of those that agents advertise: manual forwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Forward(NamedTuple):
    """One entry: the host and port as the cluster knows them, and what leads there; no port: all ports."""

    host: str
    port: int | None
    to_host: str
    to_port: int | None


class AddressMap:
    """The entries of `--map`. A host matches by its address, its name, or the first part of its name."""

    def __init__(self, forwards: Iterable[Forward] = ()) -> None:
        self._forwards = {(each.host.lower(), each.port): each for each in forwards}

    def endpoint_to_dial(self, endpoint: str, hostname: str = "") -> str:
        """Return the endpoint to dial for this endpoint of a host."""
        if not self._forwards:
            return endpoint
        address, _, port = endpoint.rpartition(":")
        for name in (address.strip("[]"), hostname, hostname.partition(".")[0]):
            found = port.isdecimal() and self._find(name.lower(), int(port))
            if found:
                return f"{found.to_host}:{found.to_port or port}"
        return endpoint

    def typed(self, host: str, ports: Iterable[int]) -> list[str]:
        """Return the endpoints to dial for a host that the user typed; none if it has no entry."""
        found = ((self._find(host.strip("[]").lower(), port), port) for port in ports)
        return [f"{each.to_host}:{each.to_port or port}" for each, port in found if each is not None]

    def _find(self, host: str, port: int) -> Forward | None:
        return self._forwards.get((host, port)) or self._forwards.get((host, None))


NO_MAP = AddressMap()
