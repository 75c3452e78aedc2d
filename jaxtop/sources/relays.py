"""The requests of a live source to the relays that it finds; without the feature, it follows none."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import zmq

    from jaxtop import wire


class Relays(Protocol):
    """The relays that were found, by their ids."""

    @property
    def is_settled(self) -> bool:
        """Whether every relay has sent what it knows, and its own source is settled."""
        ...

    def notes(self, now: float, /) -> list[str]: ...

    def rejected(self) -> Counter[str]:
        """Return the counts of messages that the relays rejected."""
        ...

    def found(self, target: str, endpoint: str, relay: str, now: float, /) -> bool:
        """Follow the relay that answered at an address; return False if that must be tried again later."""
        ...

    def wait_with(self, poller: zmq.Poller, /) -> None:
        """Let messages wake this poller."""
        ...

    def take(self, now: float, /) -> Iterable[tuple[str, wire.Frame]]:
        """Yield the frames that have come, each with the id of its relay."""
        ...

    def request(
        self,
        relay: str,
        agent: str,
        request: wire.Request,
        now: float,
        done: Callable[[wire.Reply | None], None],
        /,
    ) -> None: ...

    def close(self) -> None: ...


class NoRelays:
    """No relay is followed; a note names those that answered."""

    is_settled = True

    def __init__(self, *_: Any, **__: Any) -> None:
        self._met: dict[str, None] = {}

    def notes(self, _now: float) -> list[str]:
        return [f"{each} is a relay: this jaxtop has no feature for relays" for each in self._met]

    def rejected(self) -> Counter[str]:
        return Counter()

    def found(self, _target: str, endpoint: str, _relay: str, _now: float) -> bool:
        self._met[endpoint] = None
        return True

    def wait_with(self, _poller: zmq.Poller) -> None:
        """Nothing can come."""

    def take(self, _now: float) -> Iterable[tuple[str, wire.Frame]]:
        return ()

    def request(self, *given: Any) -> None:
        given[-1](None)

    def close(self) -> None:
        """Nothing is open."""
