"""NCCL's RAS service: its protocol of lines, and its answers in JSON and in the texts of three versions.

Commands, answers and layout are those of NCCL's sources (src/ras/client_support.cc), from 2.24 to 2.29.
"""

from __future__ import annotations

import json
import socketserver
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field

OPERATIONS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")
# The version that first has JSON; those before 2.26 count all operations together.
JSON_SINCE, KINDS_SINCE = (2, 28, 7), (2, 26, 0)


@dataclass
class Rank:
    """One rank of the only communicator; `state` may be "answers", "silent" or "left"."""

    rank: int
    pid: int
    host: str = "10.0.0.1"
    gpu: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    state: str = "answers"

    @property
    def total(self) -> int:
        return sum(self.counts.values())


class Job:
    """What the service says; a test changes the ranks."""

    def __init__(self, ranks: list[Rank], version: tuple[int, int, int] = (2, 29, 2)) -> None:
        self.ranks = ranks
        self.version = version
        self.asked: list[str] = []
        self.hold = threading.Event()
        self.hold.set()
        self.port = 0

    def answer(self, *, is_json: bool) -> str:
        return self._json() if is_json else self._text()

    def _json(self) -> str:
        there = [each for each in self.ranks if each.state == "answers"]
        missing = [each for each in self.ranks if each.state != "answers"]
        communicator = {
            "hash": "0xae94423cfbb2ef4a",
            "secondary_hash": "0xb7e7187447156001:0xb8242ed28a71381e",
            "size": len(self.ranks),
            "ranks_count": len(there),
            "missing_ranks_count": len(missing),
            "ranks": [
                self._who(each)
                | {
                    "status": {"init_state": 0, "async_error": 0, "finalize_called": False},
                    "collective_counts": dict.fromkeys(OPERATIONS, 0) | each.counts,
                }
                for each in there
            ],
            "missing_ranks": [
                self._who(each)
                | {"status": {"unresponsive": each.state == "silent", "considered_dead": False}}
                for each in missing
            ],
        }
        return json.dumps(
            {
                "nccl_version": ".".join(map(str, self.version)),
                "cuda_runtime_version": 13000,
                "communicators_count": 1,
                "communicators": [communicator],
                "ras": {"collection_time_sec": 0.0, "timeouts_count": len(missing)},
            },
            indent=2,
        )

    def _who(self, each: Rank) -> dict[str, object]:
        return {
            "rank": each.rank,
            "host": each.host,
            "pid": each.pid,
            "cuda_dev": each.gpu,
            "nvml_dev": each.gpu,
        }

    def _text(self) -> str:
        there = [each for each in self.ranks if each.state == "answers"]
        silent = [each for each in self.ranks if each.state == "silent"]
        processes, nodes = (
            len({(each.host, each.pid) for each in self.ranks}),
            len({r.host for r in self.ranks}),
        )
        errors = "INCOMPLETE" if silent else "MISMATCH" if len({each.total for each in there}) > 1 else "OK"
        size = len(self.ranks)
        lines = [
            f"NCCL version {'.'.join(map(str, self.version))} compiled with CUDA 12.6",
            "CUDA runtime version 12060, driver version 12060",
            "",
            "Job summary",
            "===========",
            "",
            "  Nodes  Processes         GPUs  Processes     GPUs",
            "(total)   per node  per process    (total)  (total)",
            f"{nodes:7}  {processes // nodes:9}  {size // processes:11}  {processes:9}  {size:7}",
            "",
            "Communicators... (0.00s)",
            "=============",
            "",
            "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors",
            "    #  in group  per comm  per node  per comm  in group",
            f"{0:5}  {1:8}  {nodes:8}  {size // nodes:8}  {size:8}  {size:8}  {'RUNNING':>8}  {errors:>6}",
            "",
            "Errors",
            "======",
            "",
        ]
        if silent:
            lines += ["#0-0 (ae94423cfbb2ef4a) INCOMPLETE"]
            lines += [f"  Missing communicator data from {len(silent)} rank{'s' * (len(silent) > 1)}"]
            lines += [f"  Rank {each.rank} -- {self._gpu(each)}" for each in silent] + [""]
        lines += ["Warnings", "========", ""]
        kinds = OPERATIONS if self.version >= KINDS_SINCE else ("collective",)
        body = [line for kind in kinds for line in self._counts(kind, there)]
        return "\n".join([*lines, *(["#0-0 (ae94423cfbb2ef4a) MISMATCH", *body] if body else []), ""])

    def _counts(self, kind: str, there: list[Rank]) -> list[str]:
        groups: dict[int, list[Rank]] = {}
        for each in there:
            count = each.total if kind == "collective" else each.counts.get(kind, 0)
            groups.setdefault(count, []).append(each)
        if len(groups) < 2:
            return []
        lines = [f"  Communicator ranks have different {kind} operation counts"]
        for count, ranks in sorted(groups.items(), key=lambda each: -len(each[1])):
            does = f"launched up to operation {count}" if count else "not launched any operations"
            if len(ranks) == 1:
                lines.append(f"  Rank {ranks[0].rank} has {does} -- {self._gpu(ranks[0])}")
                continue
            lines.append(f"  {len(ranks)} ranks have {does}")
            if len(ranks) * 2 < len(self.ranks):
                lines += [f"  Rank {each.rank} -- {self._gpu(each)}" for each in ranks]
        return [*lines, ""]

    def _gpu(self, each: Rank) -> str:
        other = f" (NVML {each.gpu + 4})" if each.gpu else ""  # as with CUDA_VISIBLE_DEVICES=4,5,6,7
        return f"GPU {each.gpu}{other} managed by process {each.pid} on node {each.host}"


class _Client(socketserver.StreamRequestHandler):
    """One connection: lines until a status is asked for; then the answer, and the end."""

    def handle(self) -> None:
        job: Job = self.server.job  # type: ignore[attr-defined]
        is_json = False
        while line := self.rfile.readline(1024).decode().strip():
            job.asked.append(line)
            command = line.lower()
            if command.startswith("client protocol "):
                self._say("SERVER PROTOCOL 2")
            elif command.startswith("timeout "):
                self._say("OK")
            elif command == "set format json" and job.version >= JSON_SINCE:
                is_json = True
                self._say("OK")
            elif command in {"status", "verbose status"}:
                job.hold.wait(20)
                self.wfile.write(job.answer(is_json=is_json).encode())
                return
            else:
                self._say(f"ERROR: Unknown command {line}")

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\n".encode())


@contextmanager
def serving(job: Job):
    """Serve on a port of its own."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Client) as server:
        server.daemon_threads = True
        server.job = job  # type: ignore[attr-defined]
        job.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield job
        finally:
            job.hold.set()
            server.shutdown()
            thread.join()
