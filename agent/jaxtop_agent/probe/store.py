"""How processes agree: through JAX's coordination service, or locally if there is only one."""

from __future__ import annotations

import re
from typing import IO, TYPE_CHECKING, TypeVar

import msgspec

from jaxtop_agent import jaxprivate

if TYPE_CHECKING:
    from jaxtop.wire.probing import Said

T = TypeVar("T")
MISSING = re.compile(r"^(?:\S*task:)?(\d+)$", re.MULTILINE)


class NotArrived(Exception):
    """Another process did not arrive in time."""


class Store:
    """Values that all processes read, and barriers at which they wait for each other."""

    def __init__(self, process: int, processes: int, patience: float, name: str = "probe") -> None:
        self.process = process
        self.processes = processes
        self._patience = patience
        self._name = name
        self._own: dict[str, str] = {}
        self._shared = jaxprivate.Coordination() if processes > 1 else None

    def put(self, key: str, value: object) -> None:
        text = msgspec.json.encode(value).decode()
        if self._shared is None:
            self._own[key] = text
        else:
            self._shared.set(f"{self._name}/{key}", text, overwrite=False)

    def get(self, key: str, kind: type[T], owner: int) -> T:
        """Wait for and return the value that a process has stored."""
        if self._shared is None:
            return msgspec.json.decode(self._own[key], type=kind)
        try:
            text = self._shared.get(f"{self._name}/{key}", self._patience)
        except Exception as error:
            raise self._unmet(str(owner), key) from error
        return msgspec.json.decode(text, type=kind)

    def remove(self, key: str) -> None:
        """Remove a value that no process needs any more."""
        if self._shared is None:
            del self._own[key]
        else:
            self._shared.remove(f"{self._name}/{key}")

    def meet(self, place: str) -> None:
        if self._shared is None:
            return
        try:
            self._shared.meet(f"{self._name}/{place}", self._patience)
        except Exception as error:
            # JAX names some of the missing processes, in different formats.
            named = str(error).partition("timed out task names:")[2]
            raise self._unmet(", ".join(MISSING.findall(named)), place) from error

    def _unmet(self, missing: str, place: str) -> NotArrived:
        who = f"process {missing}" if missing else "another process"
        return NotArrived(
            f"{who} did not come within {self._patience:.0f} s ({place.partition('/')[0]}): gone, or stuck"
        )

    def decided_by_first(self, key: str, value: T | None, kind: type[T]) -> T:
        """Return the value of process 0, in every process."""
        if self.process == 0:
            self.put(key, value)
        return self.get(key, kind, 0)


class Reporter:
    """The pipe to the command that started this process; most processes have none."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        self._pipe = pipe

    def send(self, message: Said) -> None:
        if self._pipe is not None:
            self._pipe.write(msgspec.json.encode(message) + b"\n")
            self._pipe.flush()
