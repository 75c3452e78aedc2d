"""The part of jaxtop that runs inside a training process.

    from jaxtop import agent
    agent.start()

Importing this module loads this file and the handle only. `start` loads the rest, most of it only after JAX
itself has been imported.

What is where:

- service/: the agent, which starts everything; the sampler, the publisher with what it sends, the
  registrar; imported by no other folder
- core/: the board between the threads, settings, budgets, threads, waiting
- hooks/: what JAX and the import system call on the user's threads: they only count, or note an exception
  of JAX's runtime
- collectors/: one file per kind of reading
- arrays/: from variables to names, roles and counts of arrays, without running the script's code
- programs/: what each compiled program contains, read once: operations, collectives with groups, trip
  counts and lines, and why the partitioner added them; why functions were compiled again, and storms; on
  request, what holds memory at its peak
- steps/: which launches make a step, how long it takes, what it computes
- profiler/: windows of JAX's profiler: when, how large, what they contain; full profiles on request
- logged/: the scalars that the script logs, from the files of their writers and from calls; how each scalar
  develops
- served/: figures that a serving engine on this machine publishes as Prometheus text
- reporting/: writes what the agent knows into the script's own run of a tracker, where the script asks for it
- trees.py: the norms of a tree, computed in the script's own step
- ledger/: what the process spends its time on, from its start to its end
- stalls/: whether anything is launched, where the threads are, what the main thread spends its time on,
  which exception ended the script, and which it caught
- stuck/: ends the process where the script asks for it, once the whole run is stuck
- hardware/: drivers of NVIDIA, AMD and TPU devices, on a thread of their own
- machine/: control groups, pressure, disks, threads, from small kernel files
- handle.py, loading.py: what `start` returns; imports the rest on a thread of its own
- blackbox.py: the agent's messages in files, which outlast the process
- probe/, planning/, demo/: processes of `jaxtop probe`, `jaxtop plan --compile` and `jaxtop demo`;
  `probe/planning.py` and `probe/placing.py` choose devices for `best_devices`
- boot/: what `jaxtop run` puts before the script, and what its children inherit
- selfcheck.py: which parts work with this JAX, for `jaxtop doctor`
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jaxtop_agent.handle import Handle
from jaxtop_agent.ledger.phases import Phase

if TYPE_CHECKING:
    from jaxtop_agent.boot.children import Family
    from jaxtop_agent.service.agent import Agent
    from jaxtop_agent.trees import Norms

__all__ = ["norms", "phase", "start", "status", "step", "stop", "watch"]

_agent: Agent | None = None
_why_off = "agent.start() was not called"
_is_prepared = False
_held: list[Agent] = []  # filled only while this process forks


def start(
    name: str | None = None,
    *,
    bind: str | None = None,
    interval: float | None = None,
    record: str | os.PathLike[str] | None = None,
    collectives: str | None = None,
    end_if_stuck: float | None = None,
    role: str | None = None,
    report_to: str | None = None,
    scrape: str | None = None,
) -> Handle:
    """Make this process visible to `jaxtop`; return the handle of the agent, as `status` does.

    Returns at once and never raises because of an error inside the agent. The process is shown once it uses
    JAX's devices; the processes that it starts are shown, too, once they do. It may be called before or after
    `jax.distributed.initialize()`; a second call does nothing but set `role`. A process that is short of
    threads, memory or file descriptors is not shown; `jaxtop ls` reports it.

    Args:
        name: name of the run (default: name of the script).
        bind: the address to serve on; by default loopback, or, where the run spans hosts, the interface
            that leads to the coordinator.
        interval: seconds between two pulses, 1 by default.
        record: a folder for a recording of the last ten minutes, which remains even when the process is
            killed; `jaxtop replay` opens it. While the agent records, it collects figures as if a viewer were
            connected.
        collectives: whether short windows of JAX's profiler measure how long collectives take: "auto" (the
            default: "sampled" on CPUs and TPUs, "on request" on AMD GPUs, "off" on NVIDIA GPUs where the end
            of a profile can end the run), "sampled", "on request", "off".
        end_if_stuck: after how many seconds without any movement in any process of the run the agent ends
            this process, with exit status 138 and a black box; never by default. All processes of the run
            need it. Give more seconds than the longest launch takes.
        role: what this process is for among those that belong together, such as "learner" or "actor".
        report_to: the tracker into whose run, which the script has open, process 0 writes what its agent
            knows, at most once a minute: "wandb", "mlflow", "trackio", or several with commas between them.
        scrape: where a serving engine on this machine serves its own figures as Prometheus text, such as
            "http://127.0.0.1:8000/metrics"; process 0 reads them every five seconds.
    """
    given = {
        "name": name,
        "bind": bind,
        "interval": interval,
        "record": record,
        "collectives": collectives,
        "end_if_stuck": end_if_stuck,
        "role": role,
        "report_to": report_to,
        "scrape": scrape,
    }
    running = _agent
    if running is not None and not (running.is_inherited and running.waits):
        if role:
            running.take_role(role)
        _did_nothing("the agent was started before")
        return status()
    before: tuple[dict[str, Any], Family] | None
    if running is not None:
        before = running.given, running.family
        stop()
    else:
        before = _inherited()
    if before is None:
        _start(given, None)
    else:  # what the script says takes precedence over what it has inherited
        _start(before[0] | {each: value for each, value in given.items() if value is not None}, before[1])
    return status()


def start_in_child() -> None:
    """Start the agent in a process that a process with an agent has started, if it has not."""
    if _agent is None and (before := _inherited()) is not None:
        _start(*before)


def _inherited() -> tuple[dict[str, Any], Family] | None:
    try:
        from jaxtop_agent.boot import children

        return children.inherited()
    except Exception:  # a mark of another version
        return None


def _start(given: dict[str, Any], family: Family | None) -> None:
    global _agent  # noqa: PLW0603 - there is one agent per process
    try:
        from jaxtop_agent.core.settings import read
        from jaxtop_agent.service.agent import Agent

        settings = read(**given)
        if settings.is_on:
            _prepare_for_forks()
            _agent = Agent(settings, given, family)
            _agent.start()
        else:
            _did_nothing("JAXTOP is set to off")
    except Exception as error:
        _agent = None
        _did_nothing("it failed", error)


def _did_nothing(why: str, error: BaseException | None = None) -> None:
    global _why_off  # noqa: PLW0603 - as above
    _why_off = why if error is None else f"{type(error).__name__}: {error}"
    with suppress(Exception):
        from jaxtop.base import debuglog

        debuglog.warning("start", "agent.start() did nothing", why, error)


def status() -> Handle:
    """Return the handle of the agent: its state, its address, and at a prompt how to watch it."""
    return Handle(_agent, _why_off)


def stop() -> None:
    """Stop the agent and remove everything it installed; `start` may be called again."""
    global _agent, _why_off  # noqa: PLW0603 - as above
    leaving, _agent = _agent, None
    if leaving is not None:
        _why_off = "agent.stop() was called"
        leaving.stop("stopped")


def _prepare_for_forks() -> None:
    global _is_prepared  # noqa: PLW0603 - Python cannot take an at-fork hook back
    if not _is_prepared and hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_hold, after_in_parent=_go_on, after_in_child=_in_forked_child)
        _is_prepared = True


def _hold() -> None:
    if (forking := _agent) is not None:
        _held.append(forking)
        forking.hold()


def _go_on() -> None:
    if _held:
        _held.pop().go_on()


def _in_forked_child() -> None:
    global _agent  # noqa: PLW0603 - as above
    _held.clear()
    parents = _agent
    if parents is None:
        return
    if parents.waits:  # the child may use JAX itself
        parents.goes_on_in_child()
    else:
        _agent = None
        parents.after_fork()


def step(index: int, /, **metrics: object) -> None:
    """Report the current step to viewers, with its numbers, scalar arrays (`loss=`, `tokens=`) and norms.

    Arrays are read once they are ready; the call never waits for them. Norms are those of `norms`.
    """
    if _agent is not None:
        _agent.progress.step(index, metrics)


def norms(tree: object) -> Norms:
    """Compute the norms of a tree inside the script's own jitted step, for `agent.step(i, grads=norms)`.

    Returns the L2 norm of the whole tree and of each of its parts, and how many of their elements are not
    finite: a pytree of two small arrays, which the step returns with its other results. A part is a branch
    where the paths of the tree first differ, such as a layer. No callback and no transfer is added; the tree
    is read once. Arrays may be sharded in any way under `jax.jit`. Inside `jax.shard_map` a tree has only the
    part of one device: call it outside of that, in the function that is jitted.
    """
    from jaxtop_agent.trees import norms_of

    return norms_of(tree)


def phase(name: str) -> Phase:
    """Say what a part of the script does: `with agent.phase("restore"): ...`.

    What the script says goes before what jaxtop finds by itself. Names are "start", "compile", "restore",
    "step", "evaluate", "save" and "input"; any other one counts as "other". Phases of the main thread count;
    within each other, the inner one.
    """
    return Phase(None if _agent is None else _agent.phases, name)


def watch(**names: object) -> None:
    """Give arrays names of your own: `agent.watch(params=lambda: trainer.params)`.

    The agent finds most names by itself. Use this for arrays that cannot be reached from any variable of a
    running function. A function is called at each census, on a thread of the agent; it should only return the
    current pytree. A pytree is read once, during this call: the agent keeps its paths, but none of its
    arrays. Arrays that later replace them are recognised by shape and dtype, and only while they have no
    other name. Where arrays are replaced, pass a function.
    """
    if _agent is not None:
        _agent.watch(names)
