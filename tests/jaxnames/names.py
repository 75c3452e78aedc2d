"""Look-ups of JAX's names, as paths from a module of JAX."""

from __future__ import annotations

from dataclasses import dataclass, replace

# The results of a call, and of a loop or an index.
CALLED, EACH = ("()",), ("[]",)
# A tuple or list of such values, written as one.
LISTED = ("[…]",)
# The root of names that may be anywhere in JAX.
ANYWHERE = "jax.*"


@dataclass(frozen=True)
class Path:
    """What a look-up leads to: names from a module or a class of JAX on, each with its alternatives."""

    root: str
    steps: tuple[tuple[str, ...], ...] = ()

    def __truediv__(self, step):
        return replace(self, steps=(*self.steps, step))

    @property
    def words(self):
        return self.root + "".join(
            step[0] if step in (CALLED, EACH) else "." + "|".join(step) for step in self.steps
        )


@dataclass(frozen=True)
class Use:
    """A look-up in the code of the agent.

    `arguments` are the number of those without names and the names of the others, where it is called.
    `without` is what the agent does where the name is missing.
    """

    path: Path
    place: str
    arguments: tuple[int, tuple[str, ...]] | None = None
    without: str = ""
