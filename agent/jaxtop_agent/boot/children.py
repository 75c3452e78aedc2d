"""The environment that children of this process inherit, so that a child that uses JAX starts its own agent.

The variables are in the environment that the system passes on, but not in `os.environ`: the script sees and
copies its own environment. `sitecustomize.py` takes them out again in each child that is a Python.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, NamedTuple

MARK, PATH = "JAXTOP_BOOT", "PYTHONPATH"
# In place of the pid of `jaxtop run`: the mark is for children, whatever their pid.
OF_CHILDREN = "0"


class Family(NamedTuple):
    """The processes that belong together, as one of them knows it.

    `script` is the name of the script of the process that was first, and `role` what the environment said
    there: a child that finds the same role has inherited it. Both are empty in the first process.
    """

    id: str
    script: str = ""
    role: str = ""

    @property
    def is_of_child(self) -> bool:
        return bool(self.script)


def inherited() -> tuple[dict[str, Any], Family] | None:
    """Return the settings that this process has inherited, once, and its family; None if there are none."""
    for finder in sys.meta_path:
        if (settings := getattr(finder, "jaxtop_settings", None)) is not None:
            sys.meta_path.remove(finder)
            found = json.loads(settings)
            return found, Family(*found.pop("family"))
    return None


def mark(pid: int | str, settings: dict[str, object]) -> str:
    """Return the mark: the pid that it is for, whether PYTHONPATH is set, its value, and the settings."""
    path = os.environ.get(PATH)
    given = {name: value for name, value in settings.items() if value is not None}
    return f"{pid}:{int(path is not None)}:{path or ''}\n{json.dumps(given)}"


def path_with_boot() -> str:
    """Return PYTHONPATH with the folder of `sitecustomize.py` in front."""
    folder, path = os.path.dirname(os.path.abspath(__file__)), os.environ.get(PATH)  # noqa: PTH100, PTH120 - a Path costs 10 ms at the start of the script
    return folder if not path else f"{folder}{os.pathsep}{path}"


def pass_on(settings: dict[str, object]) -> None:
    """Let children of this process start an agent with these settings."""
    if sys.flags.ignore_environment or sys.flags.no_site:
        return  # children get the same flags, would keep the variables and would not run `sitecustomize.py`
    os.putenv(MARK, mark(OF_CHILDREN, settings))
    os.putenv(PATH, path_with_boot())


def pass_on_nothing() -> None:
    """Give children the environment of the script again."""
    os.unsetenv(MARK)
    path = os.environ.get(PATH)
    if path is None:
        os.unsetenv(PATH)
    else:
        os.putenv(PATH, path)
