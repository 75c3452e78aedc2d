"""A parser for one instruction in the compiler's text: `%name = shape opcode(operands), attributes`."""

from __future__ import annotations

import re
from typing import NamedTuple

from jaxtop.base.names import shorten

_HEAD = re.compile(r"\s*(?:ROOT )?%?([^\s=]+) = ")
_OPCODE = re.compile(r"\s*([a-z][a-z0-9\-]*)\(")
_BRACKET = re.compile(r"[()]")
_QUOTED = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_NAMED = re.compile(r"%([\w.\-]+)")
_PATH = re.compile(r"[():]")
_COMMENT = re.compile(r"/\*[^*]*\*/")
_LAST_NAME = re.compile(r"%?([\w.\-]+)\s*$")
_METADATA = re.compile(r'\bmetadata=\{((?:[^"}]++|"[^"\\]*(?:\\.[^"\\]*)*")*+)\}')
_OP_NAME = re.compile(r'\bop_name="([^"\\]*(?:\\.[^"\\]*)*)"')
_ESCAPED = re.compile(r"\\(['\"\\])")
_PLACE = re.compile(r'\bsource_file="([^"\\]*(?:\\.[^"\\]*)*)" source_line=(\d{1,9})\b')
_FRAME = re.compile(r"\bstack_frame_id=(\d{1,9})\b")
_TRIPS = re.compile(r'known_trip_count\\?":\s*\{\\?"n\\?":\s*\\?"(\d{1,18})\\?"')
# The length of a line of compiled text; a longer one is skipped.
MAX_LINE_CHARS = 4 << 20
LONGEST_SOURCE = 40


class Instruction(NamedTuple):
    """The parts of an instruction, as text; `quoted` has the attributes with their quoted parts."""

    name: str
    opcode: str
    shape: str
    operands: str
    quoted: str

    @property
    def attributes(self) -> str:
        """The attributes with their quoted parts emptied."""
        return _QUOTED.sub('""', self.quoted)

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        return pattern.search(self.attributes)

    def attribute(self, pattern: re.Pattern[str]) -> str | None:
        """Return the first group of the pattern's first match in the attributes."""
        match = self.match(pattern)
        return match[1] if match else None

    @property
    def operand_names(self) -> list[str]:
        if "%" in self.operands:
            return _NAMED.findall(self.operands)
        return [name for each in _COMMENT.sub("", self.operands).split(",") if (name := each.strip())]

    @property
    def operand(self) -> str:
        """The name of the operand of an instruction that has one."""
        match = _LAST_NAME.search(self.operands)
        return match[1] if match else ""

    @property
    def metadata(self) -> str:
        """What JAX recorded about the operation in the script."""
        match = _METADATA.search(self.quoted)
        return match[1] if match else ""

    @property
    def name_stack(self) -> str:
        """The path that JAX recorded: the functions and name scopes around the operation, then its name."""
        match = _OP_NAME.search(self.metadata)
        return _ESCAPED.sub(r"\1", match[1]) if match else ""

    @property
    def states_line(self) -> bool:
        """Whether the compiler states a line of the script; this is faster than reading the line."""
        return "stack_frame_id=" in self.quoted or "source_line=" in self.quoted

    @property
    def place(self) -> tuple[str, int] | None:
        """The file and line of the script, where the compiler writes them next to the operation."""
        match = _PLACE.search(self.metadata)
        return (match[1], int(match[2])) if match else None

    @property
    def frame(self) -> int | None:
        """The number of the stack frame, where the compiler lists the frames at the top of the module."""
        match = _FRAME.search(self.metadata)
        return int(match[1]) if match else None

    @property
    def source(self) -> str:
        """The script's name for it, or names if the compiler combined several operations."""
        return shorten(", ".join(self.sources), LONGEST_SOURCE)

    @property
    def sources(self) -> list[str]:
        """The script's names for it: the last part of each path that JAX recorded."""
        paths = _combined(self.name_stack.split("[", 1)[0])
        return list(dict.fromkeys(_last(each) for each in paths))

    @property
    def trips(self) -> int | None:
        """The number of rounds of a loop; None if the compiler does not state it."""
        match = _TRIPS.search(self.quoted)
        return int(match[1]) if match else None


def read(line: str) -> Instruction | None:
    """Parse the instruction in a line; None if the line holds no complete instruction."""
    head = _HEAD.match(line)
    if head is None or len(line) > MAX_LINE_CHARS:
        return None
    start = head.end()
    end = _closing(line, start) if line.startswith("(", start) else line.find(" ", start)
    opcode = _OPCODE.match(line, end) if end > 0 else None
    if opcode is None:
        return None
    closing = _closing(line, opcode.end() - 1)
    if closing < 0:
        return None
    return Instruction(
        head[1],
        opcode[1],
        line[start:end],
        line[opcode.end() : closing - 1],
        line[closing:],
    )


def _combined(path: str) -> list[str]:
    """Return the paths of all operations that the compiler combined: g/a and b of "f/(g/a:b)"."""
    depth, end, found = 0, len(path) - 1, []
    for mark in reversed(list(_PATH.finditer(path))) if path.endswith(")") else ():
        if mark[0] == ")":
            depth += 1
        elif mark[0] == ":" and depth == 1:
            found.append(path[mark.end() : end])
            end = mark.start()
        elif mark[0] == "(":
            depth -= 1
            if not depth:
                is_group = bool(found) and path[: mark.start()][-1:] in {"", "/"}
                return [path[mark.end() : end], *reversed(found)] if is_group else [path]
    return [path]


def _last(path: str) -> str:
    last = path.rsplit("/", 1)[-1]
    # A split in "transpose(jvp(f/while/g))" leaves these unmatched.
    return last.rstrip(")") if last.count(")") > last.count("(") else last


def _closing(line: str, start: int) -> int:
    """Return the position after the bracket that closes the one at `start`; -1 if it is not closed."""
    depth = 0
    for bracket in _BRACKET.finditer(line, start):
        depth += 1 if bracket[0] == "(" else -1
        if not depth:
            return bracket.end()
    return -1
