"""The questions of an assistant. Each reply states its moment, and is bounded."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from jaxtop.features.mcp.command_runner import CommandReply, CommandRunner, NoReply
from jaxtop.features.mcp.size_limit import MAX_BYTES, fitted, page

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_WAIT_S, MAX_ITEMS = 120.0, 100
# The document of a run has these lists; each other field of it is small.
PARTS = (
    "runs", "groups", "findings", "unchecked", "hosts", "unmet", "meshes", "arrays", "programs", "compiles",
    "compile_lines", "collectives", "axes", "events",
)  # fmt: skip
_OF_HOST = ("process_index", "hostname", "state", "age_s")
_OF_FINDING = ("rule", "severity", "text")


class Tools:
    """The questions. Their docstrings are what the assistant reads."""

    def __init__(self, target: Sequence[str], options: Sequence[str]) -> None:
        """Answer for this target where none is named; the options say how it is reached."""
        self._target, self._options = tuple(target), tuple(options)
        self._commands = CommandRunner()
        # One question at a time: each of them starts a process and may measure the run.
        self._turn = asyncio.Lock()

    async def runs(self) -> dict[str, Any]:
        """List the live runs of this user on this machine: name, id, processes, devices, target."""
        answer = await self._run("ls", "--json")
        return {**answer.head(), **page(answer.document, 0, MAX_ITEMS)}

    async def status(self, target: str = "") -> dict[str, Any]:
        """Say in short how a run is: verdict, findings by severity, processes by state, its steps.

        Use `findings` for the evidence, `snapshot` for parts. `target` is a run name, run id, host:port or
        run file; empty means the run that this server was started for, or the newest one.
        """
        answer = await self._snapshot(target, 0.0, fresh=True)
        document, states = answer.document, dict[str, int]()
        for each in document["hosts"]:
            states[each["state"]] = states.get(each["state"], 0) + 1
        first = next((each for each in document["hosts"] if each.get("step")), None)
        others = [each for each in document["hosts"] if each["state"] != "live"]
        found: dict[str, Any] = fitted(
            {
                **answer.head(),
                "verdict": document["verdict"],
                "runs": document["runs"],
                "findings": [{name: each[name] for name in _OF_FINDING} for each in document["findings"]],
                "processes_by_state": states,
                "not_live": [{name: each.get(name) for name in _OF_HOST} for each in others],
                "step_of_process": None if first is None else first["process_index"],
                "step": None if first is None else first["step"],
                "parts": {part: len(document[part]) for part in PARTS if part in document},
            }
        )
        return found

    async def findings(
        self, target: str = "", wait_s: float = 15.0, offset: int = 0, limit: int = 20
    ) -> dict[str, Any]:
        """Say what is wrong with a run: each finding with its cost, evidence, age and next step.

        A live run is measured for at most `wait_s` seconds. `target` may also be a recording. Rules that
        could not be checked are listed with the reason: no finding does not mean that they hold.
        """
        wait = _clamped(wait_s, 0.0, LONGEST_WAIT_S)
        answer = await self._run(
            "check", "--json", "--wait", f"{wait:g}", *self._words(target), measures_s=wait, fresh=offset == 0
        )
        document = answer.document
        return {
            **answer.head(),
            "verdict": document["verdict"],
            **page(document["findings"], *_bounds(offset, limit), MAX_BYTES // 2),
            "checked": len(document["checked"]),
            "unchecked": fitted(document["unchecked"], MAX_BYTES // 4),
        }

    async def snapshot(
        self, part: str, target: str = "", offset: int = 0, limit: int = 20, watch_s: float = 0.0
    ) -> dict[str, Any]:
        """Return one part of the figures of a run, a page of it: the same fields as `jaxtop snapshot`.

        Parts: runs, groups, findings, unchecked, hosts, unmet, meshes, arrays, programs, compiles,
        compile_lines, collectives, axes, events. Follow `next_offset` for more: for a minute, pages are of
        one moment. Collectives are measured only while somebody watches: give `watch_s` 30 for them.
        """
        if part not in PARTS:
            raise NoReply(f"there is no part {part!r}; there are {', '.join(PARTS)}")
        watch = _clamped(watch_s, 0.0, LONGEST_WAIT_S)
        answer = await self._snapshot(target, watch, fresh=offset == 0)
        return {**answer.head(), "part": part, **page(answer.document[part], *_bounds(offset, limit))}

    async def compare(self, a: str, b: str = "", wait_s: float = 30.0) -> dict[str, Any]:
        """Say which of two runs is slower beyond the noise of both, and in what they differ.

        Each is a recording, a ledger or folder of them, the lineage of a job, or a live run, which is
        followed for `wait_s` seconds. Without `b`, the newest live run is compared with `a`.
        """
        wait = _clamped(wait_s, 1.0, LONGEST_WAIT_S)
        words = [_checked(each) for each in (a, b) if each]
        answer = await self._run(
            "compare", "--json", "--wait", f"{wait:g}", *self._options, "--", *words, measures_s=3 * wait
        )
        found: dict[str, Any] = fitted({**answer.head(), **answer.document})
        return found

    async def plan(
        self,
        target: str = "",
        meshes: list[str] | None = None,
        devices: int = 0,
        memory: str = "",
        wait_s: float = 20.0,
    ) -> dict[str, Any]:
        """Say what a run would need, and how fast it would be, on other meshes: candidates with bounds.

        `meshes` such as ["data=8,model=4"], or `devices` for all meshes of so many; `memory` of a device such
        as "80G". `target` may also be a recording.
        """
        wait = _clamped(wait_s, 0.0, LONGEST_WAIT_S)
        asked = [f"--mesh={each}" for each in meshes or ()]
        asked += [f"--devices={devices}"] * bool(devices) + [f"--memory={memory}"] * bool(memory)
        answer = await self._run(
            "plan", "--json", f"--wait={wait:g}", *asked, *self._words(target), measures_s=wait
        )
        found: dict[str, Any] = fitted({**answer.head(), **answer.document})
        return found

    async def _snapshot(self, target: str, watch: float, *, fresh: bool) -> CommandReply:
        watching = ("--watch", f"{watch:g}") if watch else ()
        return await self._run("snapshot", *watching, *self._words(target), measures_s=watch, fresh=fresh)

    async def _run(self, *words: str, measures_s: float = 0.0, fresh: bool = True) -> CommandReply:
        async with self._turn:
            return await self._commands.run(*words, measures_s=measures_s, fresh=fresh)

    def _words(self, target: str) -> list[str]:
        """Return the target as a command takes it, with the options for the one of the server."""
        named = [_checked(target)] if target else list(self._target)
        return [*self._options, "--", *named]


def _checked(target: str) -> str:
    """Return a target that an assistant names. Shorthands start commands: only who starts the server may."""
    if "://" in target:
        raise NoReply(f"{target!r}: only `jaxtop mcp TARGET` itself may be started for such a target")
    return target


def _clamped(value: float, least: float, most: float) -> float:
    return min(max(value, least), most)


def _bounds(offset: int, limit: int) -> tuple[int, int]:
    return max(0, offset), min(max(1, limit), MAX_ITEMS)
