"""How often a function was compiled, and whether it is compiled again and again."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base import names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop_agent.programs.compiles.recompilations import CompilationRecord

# This many compilations within a minute, spread over at least this time, are a storm: the program compiles
# instead of computing. A function that initialises layers may be compiled once for each layer of a model, so
# its compilations must be spread over a longer time.
STORM_COMPILES, STORM_MS, STORM_LASTS_MS, INITIALIZING_LASTS_MS = 5, 60_000, 8_000, 40_000
# A storm ends after this time without a compilation.
STORM_OVER_MS = 30_000
# The most entries that are remembered. Compilations of one second at one place share an entry, so that a fast
# storm does not hide how long it has lasted.
MOST_REMEMBERED = 200


def steady_ms() -> int:
    """Return the monotonic time in milliseconds: the wall clock may be set back between compilations."""
    return round(time.monotonic() * 1000)


class EndedCompilations(NamedTuple):
    """When the last of `times` compilations ended, and where the function is defined; empty if unknown.

    For JAX's own functions, the place is the line of the script that calls them.
    """

    at_ms: int
    place: str = ""
    times: int = 1


@dataclass(frozen=True, slots=True)
class FunctionCompilations:
    """The compilations of the functions of one name: their number so far, and the duration of the last one.

    `ended` has the latest ones. Those of JAX's own functions are in `eager`: JAX compiles these for each new
    shape, so they are a storm only at one line, step after step. `is_the_scripts` is true if at least one
    compilation is known to be of a function that is not JAX's own. `initializes` is true if the last compiled
    program makes values out of nearly nothing. `last` is the last compilation, with its cause.
    """

    function: str
    count: int = 0
    last_ms: int = 0
    ended: tuple[EndedCompilations, ...] = ()
    eager: tuple[EndedCompilations, ...] = ()
    is_the_scripts: bool = False
    initializes: bool = False
    last: CompilationRecord | None = None

    def again(
        self,
        at_ms: int,
        took_ms: int,
        *,
        of_jax: bool | None = None,
        initializes: bool = False,
        last: CompilationRecord | None = None,
        place: str = "",
    ) -> FunctionCompilations:
        """Return the state after one more compilation; `of_jax` is None if the owner is unknown."""
        ended, eager = self.ended, self.eager
        if of_jax:
            eager = _with_ended(eager, at_ms, place)
        else:
            ended = _with_ended(ended, at_ms, place)
        is_the_scripts = self.is_the_scripts or of_jax is False
        return FunctionCompilations(
            self.function, self.count + 1, took_ms, ended, eager, is_the_scripts, initializes, last
        )

    @property
    def is_of_jax(self) -> bool:
        """Whether JAX itself is known to define each function of this name."""
        return self.count > 0 and not self.ended

    def lately(self, now_ms: int) -> list[EndedCompilations]:
        """Return the compilations of the last minute; for nameless functions, at the place with most."""
        return _lately(self.ended, now_ms, at_one_place=names.is_nameless(self.function))

    def is_storm(self, now_ms: int) -> bool:
        if self.count < STORM_COMPILES:
            return False
        lasts_ms = INITIALIZING_LASTS_MS if self.initializes else STORM_LASTS_MS
        return _is_storm(self.lately(now_ms), now_ms, lasts_ms)

    def is_eager_storm(self, now_ms: int, since_ms: int) -> bool:
        """Whether a line calls one of JAX's own functions so that it is compiled anew, after that time.

        Before the first step each new shape is compiled once, and that is not a storm.
        """
        if self.count < STORM_COMPILES:
            return False
        lately = _lately(self.eager, now_ms, at_one_place=True)
        return _is_storm([each for each in lately if each.at_ms > since_ms], now_ms, INITIALIZING_LASTS_MS)

    def storm_text(self, now_ms: int) -> str:
        from jaxtop import wire  # compilations are noted before it is loaded

        lately = self.lately(now_ms) or _lately(self.eager, now_ms, at_one_place=True)
        seconds = max(1, round((lately[-1].at_ms - lately[0].at_ms) / 1000))
        why = "its arguments change shape, or jax.jit is called on it each time"
        if self.last is not None and self.last.cause:
            why = wire.Compilation(*self.last).why
        return f"{self.function} was compiled {_count(lately)} times in {seconds} s: {why}"


def _with_ended(
    ended: tuple[EndedCompilations, ...], at_ms: int, place: str
) -> tuple[EndedCompilations, ...]:
    second = at_ms // 1000
    for i in range(len(ended) - 1, -1, -1):
        if ended[i].at_ms // 1000 != second:
            break
        if ended[i].place == place:
            return (*ended[:i], *ended[i + 1 :], EndedCompilations(at_ms, place, ended[i].times + 1))
    return (*ended, EndedCompilations(at_ms, place))[-MOST_REMEMBERED:]


def _lately(
    ended: Sequence[EndedCompilations], now_ms: int, *, at_one_place: bool
) -> list[EndedCompilations]:
    """Return the compilations of the last minute; `at_one_place`: those at the place with most."""
    lately = [each for each in ended if now_ms - each.at_ms < STORM_MS]
    if at_one_place:
        places = Counter[str]()
        for each in lately:
            places[each.place] += each.times
        del places[""]
        (place, _), *_ = places.most_common(1) or [("", 0)]
        lately = [each for each in lately if place and each.place == place]
    return lately


def _count(lately: Sequence[EndedCompilations]) -> int:
    return sum(each.times for each in lately)


def _is_storm(lately: Sequence[EndedCompilations], now_ms: int, lasts_ms: int) -> bool:
    return (
        _count(lately) >= STORM_COMPILES
        and lately[-1].at_ms - lately[0].at_ms >= lasts_ms
        and now_ms - lately[-1].at_ms < STORM_OVER_MS
    )
