"""How often a function was compiled, and whether that goes on and on."""

from __future__ import annotations

import time
from dataclasses import dataclass

# So often within a minute, over so long, is a storm: the program compiles instead of computing. What
# initializes the layers of a model may be compiled for each of them, which takes longer.
STORM_COMPILES, STORM_MS, STORM_LASTS_MS, INITIALIZING_LASTS_MS = 5, 60_000, 8_000, 40_000
# It is over after so long without a compilation.
STORM_OVER_MS = 30_000
MOST_REMEMBERED = 50
# Functions without a name of their own: many different ones share it.
_NAMELESS = ("<", "_fun", "call_wrapped", "_multi_slice")


def steady_ms() -> int:
    """The time by which compilations are compared: the wall clock may be set back."""
    return round(time.monotonic() * 1000)


@dataclass(frozen=True, slots=True)
class Compiled:
    """The compilations of one function: how many so far, how long the last one took.

    `ended` is when the last ones ended that were not of a function of JAX itself. JAX compiles these for each
    new shape, as a matter of course. `is_the_scripts`: one of them is known to be of another function.
    `initializes`: the last one makes values out of nearly nothing.
    """

    function: str
    count: int = 0
    last_ms: int = 0
    ended: tuple[int, ...] = ()
    is_the_scripts: bool = False
    initializes: bool = False

    def again(
        self, at_ms: int, took_ms: int, *, of_jax: bool | None = None, initializes: bool = False
    ) -> Compiled:
        """After one more, of a function of JAX or not; None where nobody knows."""
        ended = self.ended if of_jax else (*self.ended, at_ms)[-MOST_REMEMBERED:]
        is_the_scripts = self.is_the_scripts or of_jax is False
        return Compiled(self.function, self.count + 1, took_ms, ended, is_the_scripts, initializes)

    def lately(self, now_ms: int) -> tuple[int, ...]:
        """When those of the last minute ended."""
        return tuple(at for at in self.ended if now_ms - at < STORM_MS)

    def is_storm(self, now_ms: int) -> bool:
        """Whether it is compiled over and over."""
        if len(self.ended) < STORM_COMPILES or self.function.startswith(_NAMELESS):
            return False
        lately = self.lately(now_ms)
        lasts_ms = INITIALIZING_LASTS_MS if self.initializes else STORM_LASTS_MS
        return (
            len(lately) >= STORM_COMPILES
            and lately[-1] - lately[0] >= lasts_ms
            and now_ms - lately[-1] < STORM_OVER_MS
        )

    def storm_text(self, now_ms: int) -> str:
        """What a person should know."""
        lately = self.lately(now_ms)
        seconds = max(1, round((lately[-1] - lately[0]) / 1000))
        return (
            f"{self.function} was compiled {len(lately)} times in {seconds} s: "
            "do the shapes of its arguments keep changing, or is it jitted anew each time?"
        )
