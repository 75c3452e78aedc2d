"""The role of a process in its family: as the process states it, or a guess."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxtop.base import processes
from jaxtop_agent.core.settings import named_role, script_name

if TYPE_CHECKING:
    from jaxtop_agent.boot.children import Family

# The names that multiprocessing and concurrent.futures give by themselves, such as SpawnPoolWorker-3.
_USUAL = re.compile(r"(Fork|Spawn|ForkServer)?(Pool|Nondaemon)?(Process|Worker|MainProcess)(-[\d:-]+)?")
_NUMBER = re.compile(r"[-_ .:#]*(\d{1,9})$")
WORKER, ENGINE = "worker", "engine"
# The titles of Ray's workers: `ray::Actor` or `ray::Actor.method`, and for a task its function.
_RAY = re.compile(r"ray::(?!IDLE\b)(\w+)")


def of_process(named: str, family: Family, *, serves: bool = False) -> dict[str, Any]:
    """Return the fields of the hello: the role, whether it is a guess, its number, and the parent's pid.

    A process `serves` if the script says where its figures are served.
    """
    name = _given_name() or _named_by_ray() if family.is_of_child else ""
    found: dict[str, Any] = {"parent_pid": _parent(family), "role_number": _number(name)}
    if named:
        return {"role": named, **found}
    guess = ENGINE if serves else _guess(family, name)
    return {"role": guess, "is_role_guessed": guess is not None, **found}


def _given_name() -> str:
    """Return the name that the script gave this process; empty if multiprocessing chose it."""
    name = getattr(processes.of_multiprocessing("current_process"), "name", "")
    return "" if _USUAL.fullmatch(name) else name


def run_of_ray(family: Family) -> str:
    """Return the name of a run in a worker of Ray: the script of the first process, as its own is Ray's."""
    return family.script if _named_by_ray() else ""


def _named_by_ray() -> str:
    """Return the class or the function that a worker of Ray runs; empty in other processes."""
    if "ray" not in sys.modules:
        return ""
    try:
        title = Path("/proc/self/cmdline").read_bytes()
    except OSError:
        return ""
    found = _RAY.match(title.decode("utf-8", "replace"))
    return found[1] if found else ""


def _number(name: str) -> int | None:
    found = _NUMBER.search(name)
    return int(found[1]) if found else None


def _guess(family: Family, name: str) -> str | None:
    """Return the role by the name of the process, else by its script; None for the first process."""
    if not family.is_of_child:
        return None
    if name:
        return named_role(_NUMBER.sub("", name)) or WORKER
    script = script_name()
    return WORKER if script in (family.script, "python") else named_role(_NUMBER.sub("", script)) or WORKER


def _parent(family: Family) -> int | None:
    if not family.is_of_child:
        return None
    found = getattr(processes.of_multiprocessing("parent_process"), "pid", None)
    return found if isinstance(found, int) else os.getppid()
