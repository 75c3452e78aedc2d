"""What a process is for among those that belong together: as it says itself, or a guess."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from jaxtop.base import processes
from jaxtop_agent.core.settings import named_role, script_name

if TYPE_CHECKING:
    from jaxtop_agent.boot.children import Family

# The names that multiprocessing and concurrent.futures give by themselves, such as SpawnPoolWorker-3.
_USUAL = re.compile(r"(Fork|Spawn|ForkServer)?(Pool|Nondaemon)?(Process|Worker|MainProcess)(-[\d:-]+)?")
_NUMBER = re.compile(r"[-_ .:#]*\d+$")
WORKER = "worker"


def of_process(said: str, family: Family) -> dict[str, Any]:
    """Return the fields of the hello: the role, whether it is a guess, and the pid of the parent."""
    if said:
        return {"role": said, "parent_pid": _parent(family)}
    guess = _guess(family)
    return {"role": guess, "is_role_guessed": guess is not None, "parent_pid": _parent(family)}


def _guess(family: Family) -> str | None:
    """Return the role by the name of the process, else by its script; None for the first process."""
    if not family.is_of_child:
        return None
    name = getattr(processes.of_multiprocessing("current_process"), "name", "")
    if name and not _USUAL.fullmatch(name):
        return named_role(_NUMBER.sub("", name)) or WORKER
    script = script_name()
    return WORKER if script in (family.script, "python") else named_role(_NUMBER.sub("", script)) or WORKER


def _parent(family: Family) -> int | None:
    if not family.is_of_child:
        return None
    found = getattr(processes.of_multiprocessing("parent_process"), "pid", None)
    return found if isinstance(found, int) else os.getppid()
