"""The part of jaxtop that runs inside a training process.

    from jaxtop import agent
    agent.start()

Importing this costs nothing but this file; everything else comes with `start`, and most of it only once
JAX itself has been imported.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaxtop_agent.core.agent import Agent
    from jaxtop_agent.loading import Loading

__all__ = ["start", "step", "stop", "watch"]

_agent: Agent | None = None
_is_prepared = False
_held: list[Loading] = []  # while this process forks


def start(
    name: str | None = None,
    *,
    bind: str | None = None,
    interval: float | None = None,
    record: str | os.PathLike[str] | None = None,
    collectives: str | None = None,
) -> None:
    """Make this process visible to `jaxtop`.

    Returns at once, never raises for reasons of its own, and may stand before or after
    `jax.distributed.initialize()`; a second call does nothing. A process that is short of threads, memory or
    file descriptors is not shown; `jaxtop ls` says so.

    Args:
        name: what viewers call the run; the script's name by default.
        bind: the address to serve on; by default loopback, or, where the run spans hosts, the interface
            that leads to the coordinator.
        interval: seconds between two pulses, 1 by default.
        record: a folder in which the last ten minutes are kept, also when the process is killed;
            `jaxtop replay` opens it. While it records, figures are read as if somebody watched.
        collectives: whether short windows of JAX's profiler tell how long collectives take: "auto" (the
            default: "sampled" on CPUs and TPUs, "on request" on GPUs), "sampled", "on request", "off".
    """
    global _agent  # noqa: PLW0603 - one agent a process is the very point
    if _agent is not None or sys._getframe(1).f_globals.get("__name__") == "__mp_main__":
        # A spawned worker imports the script again; it is a part of the run, not another host of it.
        return
    try:
        from jaxtop_agent.core.agent import Agent
        from jaxtop_agent.core.settings import read

        settings = read(name, bind, interval, collectives, record)
        if settings.on:
            _prepare_for_forks()
            _agent = Agent(settings)
            _agent.start()
    except Exception:
        _agent = None


def stop() -> None:
    """Say goodbye and leave nothing behind; `start` may be called again."""
    global _agent
    leaving, _agent = _agent, None
    if leaving is not None:
        leaving.stop("stopped")


def _prepare_for_forks() -> None:
    global _is_prepared  # noqa: PLW0603 - Python cannot take an at-fork hook back
    if not _is_prepared and hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_hold, after_in_parent=_go_on, after_in_child=_in_forked_child)
        _is_prepared = True


def _hold() -> None:
    if (forking := _agent) is not None:
        _held.append(forking.loading)
        forking.loading.hold()


def _go_on() -> None:
    if _held:
        _held.pop().go_on()


def _in_forked_child() -> None:
    global _agent
    parents, _agent = _agent, None
    if parents is not None:
        parents.forsake()


def step(index: int, /, **metrics: object) -> None:
    """Tell viewers which step the script is at, with numbers or scalar arrays of it (`loss=`, `tokens=`).

    Arrays are read when they are ready, and never waited for.
    """
    if _agent is not None:
        _agent.progress.step(index, metrics)


def watch(**names: object) -> None:
    """Give arrays names of your own: `agent.watch(params=lambda: trainer.params)`.

    Viewers find most names by themselves; this is for arrays that the script holds where no variable of a
    running function leads to. A function is called, on a thread of the agent, whenever the arrays are
    counted, and should only return the pytree as it is then. A pytree is looked at once, now: its paths are
    kept, none of its arrays is. Arrays that take the place of these are known by their shape and dtype, and
    only as long as they have no other name: where arrays are replaced, give a function.
    """
    if _agent is not None:
        _agent.watch(names)
