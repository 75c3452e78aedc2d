"""Names of C++ functions that can be read: demangled, without arguments, and short."""

from __future__ import annotations

import ctypes
import os
import re
from contextlib import suppress
from functools import lru_cache
from typing import Any

from jaxtop.base.names import legible, shorten

LONGEST = 100
# Longer names are left as they are: a demangler needs more memory than they have letters.
LONGEST_MANGLED = 2000
_LIBRARIES = ("libstdc++.so.6", "libc++abi.so.1", "libc++.so.1")
# Parts of names that say nothing: inline namespaces, and how a compiler has cut a function.
_NOISE = re.compile(
    r"\(anonymous namespace\)::|::\(anonymous namespace\)|\(anonymous namespace\)|\[abi:\w+\]"
    r"|\b(?:__1|__cxx11|__2|lts_\d+|inlined|v\d+)::|\[clone [^\]]*\]"
)
_CUT = re.compile(r"\.(?:cold|part|constprop|isra|lto_priv|llvm)(?:\.\d+)*(?=\.|$)")
_OPERATOR = re.compile(r"\boperator(?:\(\)|<<=?|>>=?|<=>|<=?|>=?|->\*?|\[\]| new| delete)(?: (?=<))?")
_LAMBDA = re.compile(r"\{lambda\(.*?\)#\d+\}|'lambda\d*'\([^)]*\)")
_ENDING = re.compile(r" (?:const\b|volatile\b|&+)")
_OPENING, _CLOSING = "(<", ")>"


def readable(mangled: str) -> str:
    """Return the name of a function as a person would write it."""
    return _readable(mangled)


@lru_cache(maxsize=1024)
def _readable(mangled: str) -> str:
    cut = _CUT.sub("", mangled)
    name = demangled(cut) if cut.startswith("_Z") and len(cut) <= LONGEST_MANGLED else cut
    return shorten(legible(without_arguments(name)), LONGEST)


def demangled(name: str) -> str:
    """Return a demangled name; the name itself where no library can demangle it."""
    functions = _demangler()
    if functions is None:
        return name
    demangle, free = functions
    status = ctypes.c_int(1)
    found = demangle(name.encode(errors="replace"), None, None, ctypes.byref(status))
    if not found:
        return name
    try:
        return ctypes.string_at(found).decode(errors="replace") if status.value == 0 else name
    finally:
        free(found)


@lru_cache(maxsize=1)
def _demangler() -> tuple[Any, Any] | None:
    """Return the demangler of a C++ runtime that is loaded, and what frees its results; nothing is loaded."""
    libc = ctypes.CDLL(None)
    for library in (None, *_LIBRARIES):
        with suppress(OSError, AttributeError):
            demangle = ctypes.CDLL(library, os.RTLD_NOLOAD | os.RTLD_NOW).__cxa_demangle
            demangle.restype, demangle.argtypes = ctypes.c_void_p, [ctypes.c_char_p, *[ctypes.c_void_p] * 3]
            free = libc.free
            free.restype, free.argtypes = None, [ctypes.c_void_p]
            return demangle, free
    return None


def without_arguments(name: str) -> str:
    """Remove arguments, templates and the type of the result from a name, also in the middle of it."""
    name = _LAMBDA.sub("[lambda]", _NOISE.sub("", name))
    found = re.search(r"\boperator [\w:]", name)  # a conversion: its name contains a blank
    end = len(name) if found is None else found.start()
    operators = {each.start(): each.end() for each in _OPERATOR.finditer(name)}
    kept: list[str] = []
    depth = at = 0
    while at < len(name):
        letter = name[at]
        if at in operators:
            kept += name[at : operators[at]] if not depth else ""
            at = operators[at]
            continue
        if letter in _OPENING:
            depth += 1
        elif letter in _CLOSING:
            depth = max(0, depth - 1)
        elif not depth and (ending := _ENDING.match(name, at)) is not None:
            at = ending.end()
            continue
        elif not depth and letter == " " and at < end:
            kept = []  # it was the type of the result
        elif not depth:
            kept.append(letter)
        at += 1
    return "".join(kept).replace("[lambda]", "{lambda}").strip(" *&:") or name
