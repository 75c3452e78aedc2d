"""Names: what JAX calls the program of a function, and words of others in one legible line."""

from __future__ import annotations

import re

# JAX replaces what may not stand in the name of a module, and drops underscores at its end; the rest is the
# function's own name.
_FORBIDDEN = re.compile(r"[^\w.-]")
_PREFIX = "jit_"


def program_of(function: str) -> str:
    """The name of the program into which JAX compiles a function."""
    return (_PREFIX + _FORBIDDEN.sub("_", function)).rstrip("_")


def function_of(program: str) -> str:
    """The function that a program was compiled from, as far as its name tells."""
    return program.removeprefix(_PREFIX).removeprefix("pmap_")


def unwrapped(function: str) -> str:
    """The name of a function that JAX calls `jit(name)`."""
    return function.removeprefix("jit(").removesuffix(")") if function.startswith("jit(") else function


def legible(text: str) -> str:
    """The text in one line, with escapes in place of whatever would steer the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
