"""The result of `agent.start()`: the state of the agent and how to watch it, for a prompt or a notebook.

This is loaded with the package: `start()` may load nothing more that can fail.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaxtop_agent.service.agent import Agent

OFF, WAITS, STARTS, SERVES, FAILED, STOPPED = "off", "waits", "starts", "serves", "failed", "stopped"
# A notebook shows the handle once, right after `start()`: it waits this many seconds for the address.
PATIENCE_S = 1.0


class Handle:
    """The state of the agent at the time when it is read; reading changes nothing."""

    def __init__(self, agent: Agent | None, why_off: str = "") -> None:
        self._agent = agent
        self._why_off = why_off

    @property
    def state(self) -> str:
        """One of "off", "waits" (for JAX's devices), "starts", "serves", "failed" and "stopped"."""
        agent = self._agent
        if agent is None:
            return OFF
        if agent.failure:
            return FAILED
        if agent.is_over or agent.pid != os.getpid():
            return STOPPED
        if agent.address:
            return SERVES
        return WAITS if agent.waits else STARTS

    @property
    def address(self) -> str | None:
        """The address to attach to, while the agent serves."""
        return self._agent.address if self._agent is not None and self.state == SERVES else None

    @property
    def name(self) -> str:
        """The name of the run."""
        return "" if self._agent is None else self._agent.name

    @property
    def why(self) -> str:
        """Why this process is not shown; empty if it is."""
        agent = self._agent
        if agent is None:
            return self._why_off
        if agent.failure:
            return agent.failure
        return f"the agent stays with process {agent.pid}" if agent.pid != os.getpid() else ""

    @property
    def ignored(self) -> tuple[str, ...]:
        """A sentence for each setting whose value cannot be used: why, and what is used instead."""
        return () if self._agent is None else self._agent.ignored

    def __repr__(self) -> str:
        return f"<jaxtop agent: {' '.join(word for word, _ in self._words())}>"

    def _repr_html_(self) -> str:
        from html import escape  # with all its entities it would make `start()` a millisecond slower

        end = time.monotonic() + PATIENCE_S
        while self.state == STARTS and time.monotonic() < end:
            time.sleep(0.02)
        words = " ".join(
            f"<code>{escape(word)}</code>" if is_typed else escape(word) for word, is_typed in self._words()
        )
        return f"<div><b>jaxtop</b> {words}</div>"

    def _words(self) -> list[tuple[str, bool]]:
        """Return the parts of a sentence, and which of them are typed as they stand."""
        from shlex import quote  # `start()` need not load it

        from jaxtop.base.names import legible

        state, why, name, address = self.state, legible(self.why), legible(self.name), self.address
        notes = [(f"({note})", False) for note in self.ignored]
        if address:
            return [
                (f"serves {name} at", False),
                (address, True),
                ("– watch it with", False),
                (f"jaxtop attach {address}", True),
                ("in a terminal, or", False),
                ("jaxtop.live()", True),
                ("in a notebook", False),
                *notes,
            ]
        said = {WAITS: f"waits until jax is used, then serves {name}", STARTS: f"starts {name}"}
        if state in said:
            return [
                (f"{said[state]} – watch it with", False),
                (f"jaxtop attach {quote(name)}", True),
                ("in a terminal, or", False),
                ("jaxtop.live()", True),
                ("in a notebook", False),
                *notes,
            ]
        return [(f"{state}: {why}" if why else state, False), *notes]
