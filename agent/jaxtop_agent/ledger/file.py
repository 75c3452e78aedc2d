"""The ledger file of this process: its identity, its time by kind, its checkpoints, and its end."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jaxtop import wire
from jaxtop.base import debuglog, private, processes
from jaxtop.base.names import reason
from jaxtop.store import ledgers
from jaxtop_agent import jaxprivate
from jaxtop_agent.stalls.uncaught_exception import uncaught

if TYPE_CHECKING:
    from pathlib import Path

    from jaxtop_agent.core.board import Board

# Processes shorter than SHORTEST_MS leave no file, unless a folder was requested. A line that follows the
# last one after STAYS_MS or more stays in the file.
SHORTEST_MS, STAYS_MS = 20_000, 15_000
# The processes of a run may write to one disk: together at most 20 times a second.
MS_FOR_EACH_PROCESS = 50
# The variables that distinguish the attempts at a job, and the parts of an array of jobs.
ARRAYS = ("SLURM_ARRAY_TASK_ID", "PBS_ARRAY_INDEX", "LSB_JOBINDEX")
ATTEMPTS = ("SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT")


class LedgerWriter:
    """Writes the file of one process; used on the ledger's thread only, which the disk may hold up."""

    def __init__(self, board: Board, folder: Path | None, lineage: str, *, is_requested: bool) -> None:
        self._board = board
        self._folder = folder or ledgers.folder()
        self._is_requested = is_requested
        self._lineage = lineage or lineage_of_job() or board.identity.name or ""
        self._worker = _name_of_worker(board.identity)
        self._who: ledgers.LedgerProcess | None = None
        # The place of the next line that stays, when the last one was written, and the length of the text
        # after it, which the next line replaces.
        self._size, self._stays_ms, self._draft = 0, 0, 0
        self._written_ms = 0
        self._saves: list[bytes] = []
        self.failure = ""

    @property
    def lineage(self) -> str:
        """The name of the job; for a worker with its own devices, also its own name: it is not an attempt."""
        topology = self._board.sampler.topology
        is_alone = topology is None or topology.process_count == 1
        return f"{self._lineage} {self._worker}" if self._worker and is_alone else self._lineage

    def note_save(self, save: wire.Save) -> None:
        self._saves.append(ledgers.line_of(ledgers.SaveLine(save)))

    def write(self, latest: wire.Ledger, *, is_over: bool) -> None:
        """Write what is new: lines that stay, and a last line that the next one replaces."""
        if self.failure or self._folder is None:
            return
        age_ms = latest.at_ms - latest.started_ms
        if age_ms < SHORTEST_MS and not self._is_requested:
            return
        topology = self._board.sampler.topology
        if self._worker and topology is None:
            return  # whether it is alone decides on the name of the file
        rest_ms = MS_FOR_EACH_PROCESS * self._board.sampler.process_count
        if latest.at_ms - self._written_ms < rest_ms and not is_over:
            return
        self._written_ms = latest.at_ms
        try:
            self._put(self._folder, latest, is_over=is_over)
        except OSError as error:
            self.failure = reason(error)
            debuglog.warning("ledger", f"nothing is written into {self._folder}", error=error)
            self._board.sources["ledger"] = f"on, but not written: {self.failure}"

    def _put(self, folder: Path, latest: wire.Ledger, *, is_over: bool) -> None:
        if not self._size:
            private.make(folder)
            ledgers.tidy(folder)
        lines, who = [], self._described()
        if who != self._who:
            lines.append(ledgers.line_of(who))
            self._who = who
        error = uncaught() if is_over else None
        spent = dict(zip(wire.SPENT_ON, latest.spent_ms, strict=False))
        lines += self._saves
        lines.append(
            ledgers.line_of(
                ledgers.Sums(
                    latest.at_ms,
                    {kind: ms / 1000 for kind, ms in spent.items() if ms},
                    latest.steps,
                    wire.SCRIPT_ENDED if is_over else "",
                    "" if error is None else f"{error.type}: {error.message}",
                )
            )
        )
        text = b"".join(lines)
        padded = text[:-1].ljust(self._draft - 1) + b"\n"
        ledgers.put(folder / ledgers.file_name(who), self._size, padded)
        stays = not self._size or bool(self._saves) or latest.at_ms - self._stays_ms >= STAYS_MS
        if stays or len(lines) > 1:
            self._size, self._stays_ms, self._draft = self._size + len(padded), latest.at_ms, 0
        else:
            self._draft = len(padded)
        self._saves = []

    def _described(self) -> ledgers.LedgerProcess:
        board = self._board
        own, topology = board.identity, board.sampler.topology
        joined = (topology.process_index, topology.process_count) if topology else jaxprivate.expected()
        roster = board.registrar.roster
        return ledgers.LedgerProcess(
            ledger=ledgers.VERSION,
            lineage=self.lineage,
            agent=own.agent,
            started_ms=own.started_ms if self._who is None else self._who.started_ms,
            name=own.name or "",
            hostname=own.hostname,
            pid=own.pid,
            process_started_ticks=own.process_started_ticks,
            boot=own.boot,
            pid_namespace=own.pid_namespace,
            attempt=next((each for name in ATTEMPTS if (each := os.environ.get(name))), "")[:20],
            run=roster.run if roster else None,
            process_index=joined[0],
            process_count=joined[1],
            devices=len(topology.devices) if topology else 0,
            platform=topology.platform if topology else "",
            jaxtop=own.jaxtop,
            jax=jaxprivate.versions()[0] or "",
        )


def _name_of_worker(own: wire.Hello) -> str:
    """Return the name of a process that another one has started; empty for the first one."""
    if own.parent_pid is None:
        return ""
    name = str(getattr(processes.of_multiprocessing("current_process"), "name", ""))
    return name if name not in {"", "MainProcess"} else f"{own.role or 'worker'} {own.pid}"


def lineage_of_job() -> str | None:
    """Return the lineage of the scheduler's job, which a requeued job keeps; None outside of one."""
    job = processes.job()
    part = next((each for name in ARRAYS if (each := os.environ.get(name))), "")[:20]
    return None if job is None else f"{job} {part}".strip()
