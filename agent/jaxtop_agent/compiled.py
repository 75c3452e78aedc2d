"""How often a function was compiled, and whether that goes on and on."""

from __future__ import annotations

from dataclasses import dataclass

# So often, within so long, is a storm: the program compiles instead of computing.
STORM_COMPILES = 5
STORM_MS = 60_000
MOST_REMEMBERED = 50
# Functions without a name of their own: many different ones share it.
_NAMELESS = ("<", "_fun", "call_wrapped", "_multi_slice")


@dataclass(frozen=True, slots=True)
class Compiled:
    """The compilations of one function: how many so far, how long the last one took, when they ended."""

    function: str
    count: int = 0
    last_ms: int = 0
    ended: tuple[int, ...] = ()

    def again(self, at_ms: int, took_ms: int) -> Compiled:
        """After one more."""
        return Compiled(self.function, self.count + 1, took_ms, (*self.ended, at_ms)[-MOST_REMEMBERED:])

    def lately(self, now_ms: int) -> tuple[int, ...]:
        """When those of the last minute ended."""
        return tuple(at for at in self.ended if now_ms - at < STORM_MS)

    def is_storm(self, now_ms: int) -> bool:
        """Whether it is compiled over and over."""
        enough = len(self.ended) >= STORM_COMPILES and now_ms - self.ended[-STORM_COMPILES] < STORM_MS
        return enough and not self.function.startswith(_NAMELESS)

    def storm_text(self, now_ms: int) -> str:
        """What a person should know."""
        lately = self.lately(now_ms)
        seconds = max(1, round((lately[-1] - lately[0]) / 1000))
        return (
            f"{self.function} was compiled {len(lately)} times in {seconds} s: "
            "do the shapes of its arguments keep changing, or is it jitted anew each time?"
        )
