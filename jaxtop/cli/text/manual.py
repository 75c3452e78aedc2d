"""The manual page, and the arguments of commands as text: both from the parsers."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from jaxtop import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_START = r"""
.SH DESCRIPTION
jaxtop shows a multi\-host JAX run live: which hosts are healthy, what fills each device, every live array,
what each collective costs and which host is late. A run is visible once its script calls
.B "from jaxtop import agent; agent.start()"
or is started with
.BR "jaxtop run" .
Without a command, jaxtop attaches to your newest live run.
"""
_END = r"""
.SH EXIT STATUS
0: done. 1 or 2: not done; one line on standard error says why and what to do.
.B jaxtop snapshot
and
.B jaxtop check
use their status for what they found; see their commands.
.SH FILES
.TP
.I ~/.config/jaxtop/config.toml
Settings;
.B jaxtop config
prints all of them with value, origin and meaning.
.TP
.I ~/.config/jaxtop/key
The key with which your runs and viewers recognise each other.
.TP
.I ~/.config/jaxtop/authorized_keys
Public keys of those who may watch your runs.
"""


def page(parsers: Mapping[str, argparse.ArgumentParser], summary: str) -> str:
    """Return the manual page in roff; `parsers` has the parser of each command."""
    lines = [
        f'.TH JAXTOP 1 "" "jaxtop {__version__}" "User commands"',
        ".SH NAME",
        f"jaxtop \\- {_escaped(summary)}",
        ".SH SYNOPSIS",
        ".B jaxtop",
        "[COMMAND] [ARGUMENTS]",
        _START.strip(),
        ".SH COMMANDS",
    ]
    for name, parser in parsers.items():
        lines += [f".SS jaxtop {name}", _escaped(_sentence(parser.description or ""))]
        for shown, meaning in arguments(parser):
            lines += [".TP", f".B {_escaped(shown)}", _escaped(_sentence(meaning))]
    return "\n".join([*lines, _END.strip(), ""])


def arguments(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """Yield the arguments of a command as they are typed, and what they mean."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no public list of them
        if action.help == argparse.SUPPRESS or isinstance(action, argparse._HelpAction):  # noqa: SLF001 - as above
            continue
        value = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
        if isinstance(value, tuple):
            value = " ".join([value[0], *(f"[{each}]" for each in value[1:])])
        if action.choices:
            value = "{" + ",".join(map(str, action.choices)) + "}"
        yield f"{', '.join(action.option_strings)} {value}".strip(), action.help or ""


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else "."


def _escaped(text: str) -> str:
    """Return the text as roff shows it: hyphens that can be copied, and no requests."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("%%", "%")
    return f"\\&{text}" if text.startswith((".", "'")) else text
