"""Names of programs and of files; texts and errors as one printable line."""

from __future__ import annotations

import re

# JAX replaces characters that a module name must not have, and drops underscores at its end. XLA then
# replaces each byte of letters that are not ASCII. The rest is the function's own name.
_FORBIDDEN, _NOT_ASCII = re.compile(r"[^\w.-]"), re.compile(rb"[^\x00-\x7f]")
_PREFIX = "jit_"
_NOT_PLAIN, LONGEST_FILE_NAME = re.compile(r"[^A-Za-z0-9._-]"), 60


def program_of(function: str) -> str:
    """Return the name of the program into which JAX compiles a function."""
    name = (_PREFIX + _FORBIDDEN.sub("_", function)).rstrip("_")
    return name if name.isascii() else _NOT_ASCII.sub(b"_", name.encode(errors="surrogatepass")).decode()


def function_of(program: str) -> str:
    """Return the function that a program was compiled from, as far as the program's name shows it."""
    return program.removeprefix(_PREFIX).removeprefix("pmap_")


# Names that many different functions share, because these have no name of their own.
_NAMELESS = ("<", "_fun", "call_wrapped", "_multi_slice")


def is_nameless(function: str) -> bool:
    """Return whether many different functions are called like this one."""
    return function.startswith(_NAMELESS)


def is_nameless_program(program: str) -> bool:
    """Return whether many different functions are compiled into programs of this name."""
    return function_of(program).startswith(("_lambda", *_NAMELESS))


def unwrapped(function: str) -> str:
    """Return the name of a function that JAX calls `jit(name)`."""
    return function.removeprefix("jit(").removesuffix(")") if function.startswith("jit(") else function


def as_file_name(text: str) -> str:
    """Return a part of a file name made from any text, safe for shells and file systems."""
    name = _NOT_PLAIN.sub("_", text[:LONGEST_FILE_NAME])
    return f"_{name[1:]}" if name[:1] in ("-", ".") else name  # it would be an option or a hidden file


def legible(text: str) -> str:
    """Return the text in one line, with control characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def reason(error: BaseException) -> str:
    """Return in one line why something failed."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    first_line = str(error).strip().split("\n", 1)[0][:200]
    if isinstance(error, OSError) and first_line:
        return first_line
    return f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__


# A text with at least this many spaces is a sentence, whose beginning matters most; other texts are names.
_WORDS_OF_A_NAME = 3
_SEPARATORS = " ./[(:+-,"
# The least room in which both ends are shown.
_LEAST_ROOM = 8


def shorten(text: str, room: int) -> str:
    """Return the text in at most `room` characters, cut between words.

    Sentences are cut at the end, names and paths inside.
    """
    if len(text) <= room:
        return text
    if room < _LEAST_ROOM:
        return text[: room - 1] + "…" if room > 0 else ""
    if text.count(" ") >= _WORDS_OF_A_NAME:
        return text[: _end(text, room - 1)].rstrip(" ,;:") + "…"
    tail = text[_start(text, len(text) - (room - 1) * 3 // 5) :]
    return text[: _end(text, room - 1 - len(tail))] + "…" + tail


def _end(text: str, last: int) -> int:
    """Return the last word boundary up to this position; the position itself if none is near."""
    return next((i for i in range(last, last // 3, -1) if _is_between(text, i)), last)


def _start(text: str, first: int) -> int:
    """Return the first word boundary from this position on; the position itself if none is near."""
    return next((i for i in range(first, (first + len(text)) // 2) if _is_between(text, i)), first)


def _is_between(text: str, i: int) -> bool:
    return text[i - 1] in _SEPARATORS or text[i] in _SEPARATORS
