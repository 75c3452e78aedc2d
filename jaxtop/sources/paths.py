"""Which path to an agent is used: each process is shown once, even if several paths lead to it."""

from __future__ import annotations

from jaxtop import wire
from jaxtop.wire import LinkState

# The path of an agent that this process dials; other paths are named after the relay.
DIRECT = ""
# The rank of a state of a link by its information: none, no reply over this path, the state of the process,
# messages from the process.
_RANKS = {LinkState.CONNECTING: 0, LinkState.UNREACHABLE: 1, LinkState.UP: 3}
# The most agents whose paths are remembered. Only relays that make up agents reach this number.
MOST_AGENTS = wire.MAX_DEVICES


class Paths:
    """The links to each agent over all paths. The first path stays in use until another has a better link.

    Args:
        own_id: The id of this relay. A path that leads through it already is none: relays may follow each
            other.
    """

    def __init__(self, own_id: str = "") -> None:
        self._own_id = own_id
        self._links: dict[str, dict[str, wire.Link]] = {}
        self._used: dict[str, str] = {}

    def path_of(self, agent: str) -> str:
        return self._used.get(agent, DIRECT)

    def is_used(self, path: str, agent: str) -> bool:
        """Return whether frames of this agent count if they come over this path."""
        return self._used.get(agent, path) == path

    def note(self, path: str, agent: str, link: wire.Link) -> tuple[wire.Link | None, bool]:
        """Note a link; return the link to show, if there is one, and whether another path is used now."""
        known = self._links.get(agent)
        if known is None:
            if len(self._links) >= MOST_AGENTS:
                self._drop_one()
            known = self._links[agent] = {}
        before = self._used.get(agent)
        if self._own_id and self._own_id in link.path:
            if known.pop(path, None) is None or path != before:
                if not known:
                    del self._links[agent]
                return None, False
            why = "it was only seen through this relay itself"
            known[path] = wire.Link(LinkState.UNREACHABLE, link.endpoint, why)
        else:
            known[path] = link
        used = max(known, key=lambda each: (_rank(known[each]), each == before))
        self._used[agent] = used
        is_other = before is not None and used != before
        return (known[used] if is_other or used == path else None), is_other

    def leave(self, path: str, agent: str) -> None:
        """Forget a path to an agent that is no longer followed over it."""
        known = self._links.get(agent, {})
        known.pop(path, None)
        if not known:
            self._links.pop(agent, None)
        if self._used.get(agent) == path:
            del self._used[agent]

    def _drop_one(self) -> None:
        """Forget an agent, the first that is not heard."""
        away = (agent for agent, known in self._links.items() if max(map(_rank, known.values())) < 3)
        agent = next(away, next(iter(self._links)))
        del self._links[agent]
        self._used.pop(agent, None)


def _rank(link: wire.Link) -> int:
    return _RANKS.get(link.state, 2)
