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


# A text of more words than these is a sentence, whose beginning says most; others are names.
_WORDS_OF_A_NAME = 3
_SEPARATORS = " ./[(:+-,"
# With less room there is none for both ends.
_LEAST_ROOM = 8


def shorten(text: str, room: int) -> str:
    """The text in so many characters, cut between words: sentences at the end, names and paths inside."""
    if len(text) <= room:
        return text
    if room < _LEAST_ROOM:
        return text[: room - 1] + "…" if room > 0 else ""
    if text.count(" ") >= _WORDS_OF_A_NAME:
        return text[: _end(text, room - 1)].rstrip(" ,;:") + "…"
    tail = text[_start(text, len(text) - (room - 1) * 3 // 5) :]
    return text[: _end(text, room - 1 - len(tail))] + "…" + tail


def _end(text: str, last: int) -> int:
    """The last place between words up to this one; this one where the nearest is far away."""
    return next((i for i in range(last, last // 3, -1) if _is_between(text, i)), last)


def _start(text: str, first: int) -> int:
    """The first place between words from this one on; this one where the nearest is far away."""
    return next((i for i in range(first, (first + len(text)) // 2) if _is_between(text, i)), first)


def _is_between(text: str, i: int) -> bool:
    return text[i - 1] in _SEPARATORS or text[i] in _SEPARATORS
