"""Evidence that an address gives about a process that does not answer there.

A closed port proves that the process has ended only if the address is its own. Addresses come from rosters:
they may be another machine's loopback, behind a tunnel, or reused in another network.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jaxtop.base import processes
from jaxtop.wire import LinkState

if TYPE_CHECKING:
    from jaxtop import wire

_LOOPBACK = ("127.", "[::1]", "localhost")


@dataclass
class AgentAddress:
    """The address where an agent is expected, and whether it was ever heard there."""

    who: wire.Hello | wire.Peer
    endpoint: str
    is_met: bool = False

    @property
    def host(self) -> str:
        return self.endpoint.rpartition(":")[0]

    @property
    def is_own(self) -> bool:
        """Whether the agent itself listens at this address: no tunnel, and no other machine's loopback."""
        is_loopback = self.host.startswith(_LOOPBACK)
        return self.endpoint == self.who.telemetry and (not is_loopback or _is_this_machine(self.who))

    def is_beside(self, other: AgentAddress) -> bool:
        """Return whether the other agent, of the same machine, was heard at the same host's address."""
        return other.is_met and other.is_own and other.host == self.host and other.who.boot == self.who.boot

    def is_gone(self) -> bool | None:
        """Return whether its process has ended; None if this machine cannot tell."""
        place = processes.Namespace(self.who.boot, self.who.pid_namespace)
        return processes.is_gone(place, self.who.pid, self.who.process_started_ticks)


def judged(address: AgentAddress, state: LinkState, *, is_hung_up: bool, has_neighbour: bool) -> LinkState:
    """Return the state of a process whose address is in this state; `unreachable` if that proves nothing.

    Args:
        address: The address where the process is expected.
        state: The state of the address: closed, stopped, blocked, refused or unreachable.
        is_hung_up: Whether a connection was accepted and closed at once, as forwarders without a target do.
        has_neighbour: Whether another agent of its machine was heard at the same host's address.
    """
    if state is LinkState.CLOSED:
        is_gone = address.is_gone()
        if is_gone is not None and not address.is_met:
            # The process runs and nothing listens at its address: its agent has left.
            has_left = address.is_own and processes.shares_network(address.who.pid)
            return LinkState.CLOSED if is_gone or has_left else LinkState.UNREACHABLE
        is_proof = address.is_met or has_neighbour if address.is_own else address.is_met and is_hung_up
        return LinkState.CLOSED if is_proof else LinkState.UNREACHABLE
    return state if address.is_own or address.is_met else LinkState.UNREACHABLE


def _is_this_machine(who: wire.Hello | wire.Peer) -> bool:
    boot = processes.here().boot
    return who.boot == boot if who.boot and boot else who.hostname == socket.gethostname()
