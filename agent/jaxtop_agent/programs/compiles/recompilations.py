"""Why functions were compiled again, and the time that compilations took by function and line."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base.names import shorten
from jaxtop_agent.programs.compiles import signatures

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop_agent.programs.compiles.signatures import Signature, SignatureChange

# The signatures that are remembered, for comparison: of each function, and the array arguments, static
# values and settings of all.
MOST_FUNCTIONS, MOST_SIGNATURES, MOST_VALUES = 500, 16, 100_000
# The latest compilations of new functions, and of functions that had been compiled before.
MOST_FIRST, MOST_AGAIN = 24, 40
MOST_LINES = 500
LONGEST_NAME = 80
ALL_OTHERS = "(other functions)"

Key = tuple[object, ...]


class CompilationRecord(NamedTuple):
    """A compilation with its cause: see `wire.Compilation`, which has the same fields."""

    at_ms: int
    function: str
    source: str
    duration_ms: int
    cause: str
    argument: str
    before: str
    after: str
    others: int
    from_cache: bool | None


class SourceLine(NamedTuple):
    """The compilations of a function that one line started: see `wire.CompiledLine`."""

    function: str
    source: str
    times: int = 0
    duration_ms: int = 0
    again: int = 0
    hits: int = 0
    misses: int = 0


class CompilationSubject(NamedTuple):
    """What is compiled: the function, the line of the script that started it, and its signature.

    `defined` is the function with the line that defines it; empty on versions of JAX that do not tell it.
    """

    function: str
    source: str = ""
    key: Key = ()
    signature: Signature | None = None
    defined: str = ""

    @property
    def place(self) -> str:
        """The line that defines the function, else the one that started its compilation."""
        return self.defined or self.source


class Recompilations:
    """The compilations of this process, each compared with those before it. It grows to fixed bounds."""

    def __init__(self, setting_names: Callable[[], tuple[str, ...]] = tuple) -> None:
        self._setting_names = setting_names
        self._signatures: dict[Key, tuple[Signature, ...]] = {}
        self._values = 0
        # Each tuple of settings once, with the number of signatures that have it.
        self._settings: dict[tuple[str, ...], tuple[tuple[str, ...], int]] = {}
        self._first: deque[CompilationRecord] = deque(maxlen=MOST_FIRST)
        self._again: deque[CompilationRecord] = deque(maxlen=MOST_AGAIN)
        self._lines: dict[tuple[str, str], SourceLine] = {}

    def note(
        self,
        subject: CompilationSubject,
        at_ms: int,
        duration_ms: int,
        *,
        from_cache: bool | None,
    ) -> CompilationRecord:
        """Note a compilation and return it with its cause."""
        first, total = self._compare(subject)
        noted = CompilationRecord(
            at_ms,
            shorten(subject.function, LONGEST_NAME),
            subject.source,
            duration_ms,
            first.cause,
            shorten(first.argument, LONGEST_NAME),
            first.before,
            first.after,
            max(0, total - 1),
            from_cache,
        )
        (self._first if first.cause == signatures.FIRST else self._again).append(noted)
        self._add_up(noted)
        return noted

    def latest(self) -> list[CompilationRecord]:
        """Return the latest compilations, the oldest first."""
        return sorted((*self._first.copy(), *self._again.copy()), key=lambda each: each.at_ms)

    def lines(self, most: int) -> list[SourceLine]:
        """Return this many lines, the most expensive ones first; the last is the sum of the rest."""
        lines = sorted(self._lines.copy().values(), key=lambda line: -line.duration_ms)
        rest = lines[most - 1 :] if len(lines) > most else []
        if rest:
            lines[most - 1 :] = [
                SourceLine(ALL_OTHERS, "", *map(sum, zip(*(each[2:] for each in rest), strict=True)))
            ]
        return lines

    def _compare(self, subject: CompilationSubject) -> tuple[SignatureChange, int]:
        """Return the first difference from the nearest signature and their number, and remember this one."""
        new, key = subject.signature, subject.key
        if new is None:
            return signatures.SignatureChange(""), 0
        cached = self._signatures.pop(key, ())  # put back at the end, as the latest
        changes = signatures.nearest(new, cached, self._setting_names())
        if cached and cached[-1].names == new.names:
            new = new._replace(names=cached[-1].names)  # one list of names in memory
        self._signatures[key] = (*cached[-(MOST_SIGNATURES - 1) :], self._shared(new))
        for each in cached[: 1 - MOST_SIGNATURES]:
            self._forget(each)
        while len(self._signatures) > MOST_FUNCTIONS or (
            self._values > MOST_VALUES and len(self._signatures) > 1
        ):
            for each in self._signatures.pop(next(iter(self._signatures))):
                self._forget(each)
        if changes is None:
            return signatures.SignatureChange(signatures.FIRST), 1
        return (changes[0], changes.total) if changes else (signatures.SignatureChange(""), 0)

    def _shared(self, new: Signature) -> Signature:
        """Count the values of a signature, and return it with the settings that others have."""
        settings, users = self._settings.get(new.settings, (new.settings, 0))
        self._settings[settings] = settings, users + 1
        self._values += len(new.leaves) + len(new.statics) + (0 if users else len(settings))
        return new._replace(settings=settings)

    def _forget(self, old: Signature) -> None:
        settings, users = self._settings.pop(old.settings, (old.settings, 1))
        self._values -= len(old.leaves) + len(old.statics) + (0 if users > 1 else len(settings))
        if users > 1:
            self._settings[settings] = settings, users - 1

    def _add_up(self, noted: CompilationRecord) -> None:
        key = noted.function, noted.source
        if key not in self._lines and len(self._lines) >= MOST_LINES:
            key = ALL_OTHERS, ""
        line = self._lines.get(key, SourceLine(*key))
        self._lines[key] = line._replace(
            times=line.times + 1,
            duration_ms=line.duration_ms + noted.duration_ms,
            again=line.again + (noted.cause != signatures.FIRST),
            hits=line.hits + (noted.from_cache is True),
            misses=line.misses + (noted.from_cache is False),
        )
