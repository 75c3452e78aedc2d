"""The filter language: words that must all be found, or conditions such as `bytes>1G & role=optimizer`.

    either    = both { "|" both }
    both      = condition { ["&"] condition }
    condition = "!" condition | "(" either ")" | word [operator value]

A text without any operator is a filter of words, whatever other characters it contains.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from operator import eq, ge, gt, le, lt, ne
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, NoReturn, TypeVar

from jaxtop.base.units import NA

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

_OPERATOR = re.compile(r"[&|!<>=~]")
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<operator><=|>=|!=|!~|==|[<>=~])
    | (?P<sign>&&?|\|\|?|[()!])
    | (?P<quoted>"[^"]*"|'[^']*')
    | (?P<word>[^\s&|<>=~!()"'](?:[^\s&|<>=~!()]|\([^()&|]*\))*)
    )""",
    re.VERBOSE,
)
# A value may contain operators, as in `key<fry>`, and may start with a bracket, as in `(8, 128)`.
_VALUE = re.compile(r"""\s*(?P<word>(?!["'])(?:[^\s&|()]|\([^()&|]*\))+)""")
_LAST_WORD = re.compile(r"[^\s&|<>=~!()]+\s*$")
_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))([KMGTP]?)(?:i?B)?", re.IGNORECASE)
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(\D*)")
_POWERS = {unit: 1024**power for power, unit in enumerate(("", "K", "M", "G", "T", "P"))}
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": eq, "==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge
}  # fmt: skip
MAX_NESTED = 30


class Wrong(ValueError):
    """The reason why an expression is invalid, and the position of the error."""

    def __init__(self, why: str, at: int = 0) -> None:
        super().__init__(f"{why}, at {at + 1}")
        self.why = why
        self.at = at


@dataclass(frozen=True)
class Field(Generic[T_contra]):
    """A field of a filter: how it is read, and how an operator and a value become a test of it."""

    read: Callable[[T_contra], Any]
    asked: Callable[[str, str], Callable[[Any], bool]]


def number(operator: str, value: str) -> Callable[[Any], bool]:
    """Return a test of a number, such as `>1.5G`. An unknown value fails every test."""
    found = _NUMBER.fullmatch(value)
    if found is None:
        raise Wrong(f"{value} is not a number")
    return _compared(operator, float(found[1]) * _POWERS[found[2].upper()])


def quantity(units: Mapping[str, float]) -> Callable[[str, str], Callable[[Any], bool]]:
    """Return a parser of figures with units. `units` maps lower-case units to scales, "" to the default."""

    def asked(operator: str, value: str) -> Callable[[Any], bool]:
        found = _QUANTITY.fullmatch(value)
        if found is None:
            raise Wrong(f"{value} is not a number")
        scale = units.get(found[2].lower())
        if scale is None:
            raise Wrong(f"{found[2]} is not a unit here, try {', '.join(filter(None, units))}")
        # Multiply in decimal, so that 70 * 0.01 is exactly 0.7.
        return _compared(operator, float(Decimal(found[1]) * Decimal(str(scale))))

    return asked


def _compared(operator: str, wanted: float) -> Callable[[Any], bool]:
    if operator not in _COMPARE:
        raise Wrong(f"{operator} does not work with numbers")
    compare = _COMPARE[operator]
    return lambda read: read is not None and compare(read, wanted)


def words(operator: str, value: str) -> Callable[[Any], bool]:
    """Return a test of a name, ignoring case. `=` compares the whole name, `~` finds a part of it."""
    wanted = value.lower()
    if operator in ("=", "=="):
        return lambda read: _word(read) == wanted
    if operator == "!=":
        return lambda read: _word(read) != wanted
    if operator == "~":
        return lambda read: wanted in _word(read)
    if operator == "!~":
        return lambda read: wanted not in _word(read)
    raise Wrong(f"{operator} does not work with names")


def _word(read: str | None) -> str:
    return (NA if read is None else read).lower()


def sizes(operator: str, value: str) -> Callable[[Any], bool]:
    """Return a test of a shape. `=8,128` compares the whole shape, `~128` finds adjacent dimensions."""
    if operator not in ("=", "==", "!=", "~", "!~"):
        raise Wrong(f"{operator} does not work with shapes")
    if not re.fullmatch(r"[\d\s,×x()\[\]]{0,100}", value):
        raise Wrong(f"{value} is not a shape")
    wanted = tuple(map(int, re.findall(r"\d+", value)))
    within, count = operator.endswith("~"), len(wanted)

    def holds(shape: tuple[int, ...]) -> bool:
        if not within:
            return shape == wanted
        return any(shape[i : i + count] == wanted for i in range(len(shape) - count + 1))

    return (lambda shape: not holds(shape)) if operator.startswith("!") else holds


def has_conditions(text: str) -> bool:
    return _OPERATOR.search(text) is not None


def ends_in_word(text: str) -> bool:
    """Return whether the text ends in a word, which may become the field of a condition."""
    word = _LAST_WORD.search(text)
    return word is not None and not text[: word.start()].rstrip().endswith(("<", ">", "=", "~"))


def understand(text: str, fields: Mapping[str, Field[T]], text_of: Callable[[T], str]) -> Callable[[T], bool]:
    """Return a test from a filter. `text_of` returns the text of an item to search, in lower case.

    Raises:
        Wrong: The filter is invalid.
    """
    if not has_conditions(text):
        wanted = text.lower().split()
        return lambda item: all(word in text_of(item) for word in wanted)
    return _Parser(_tokens(text), len(text), fields, text_of).whole()


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        is_value = bool(tokens) and tokens[-1].kind == "operator"
        found = (_VALUE.match(text, at) if is_value else None) or _TOKEN.match(text, at)
        if found is None:
            start = at + len(text[at:]) - len(text[at:].lstrip())
            raise Wrong(f"{text[start]} is not closed", start)
        kind = str(found.lastgroup)
        tokens.append(_Token(kind, found[kind], found.start(kind)))
        at = found.end()
    return tokens


class _Parser(Generic[T]):
    """A recursive descent parser, with a method for each rule of the grammar."""

    def __init__(
        self, tokens: list[_Token], end: int, fields: Mapping[str, Field[T]], text_of: Callable[[T], str]
    ) -> None:
        self._tokens = [*tokens, _Token("end", "", end)]
        self._fields = fields
        self._text_of = text_of
        self._next = 0
        self._nested = 0

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._token
        self._next += 1
        return token

    def _accept(self, *signs: str) -> bool:
        if self._token.kind == "sign" and self._token.text in signs:
            self._next += 1
            return True
        return False

    def whole(self) -> Callable[[T], bool]:
        found = self._either()
        if self._token.kind != "end":
            self._refuse(f"unexpected {self._token.text}")
        return found

    def _either(self) -> Callable[[T], bool]:
        found = [self._all_conditions()]
        while self._accept("|", "||"):
            found.append(self._all_conditions())
        return found[0] if len(found) == 1 else lambda item: any(each(item) for each in found)

    def _all_conditions(self) -> Callable[[T], bool]:
        found = [self._condition()]
        while self._accept("&", "&&") or self._begins():
            found.append(self._condition())
        return found[0] if len(found) == 1 else lambda item: all(each(item) for each in found)

    def _begins(self) -> bool:
        """Return whether another condition follows without an operator."""
        kind, text, _ = self._token
        return kind in ("word", "quoted") or (kind == "sign" and text in "!(")

    def _condition(self) -> Callable[[T], bool]:
        negated = False
        while self._accept("!"):
            negated = not negated
        found = self._nest() if self._accept("(") else self._compared()
        return (lambda item: not found(item)) if negated else found

    def _nest(self) -> Callable[[T], bool]:
        self._nested += 1
        if self._nested > MAX_NESTED:
            self._refuse("too many brackets")
        found = self._either()
        if not self._accept(")"):
            self._refuse(") is missing")
        self._nested -= 1
        return found

    def _compared(self) -> Callable[[T], bool]:
        if self._token.kind not in ("word", "quoted"):
            self._refuse("a condition is missing")
        subject = self._take()
        if self._token.kind != "operator":
            wanted, text_of = _unquoted(subject).lower(), self._text_of
            return lambda item: wanted in text_of(item)
        field = self._fields.get(subject.text.lower())
        if field is None:
            near = get_close_matches(subject.text.lower(), self._fields, 1)
            self._refuse(f"no field {subject.text}" + (f", try {near[0]}" if near else ""), subject.at)
        operator = self._take()
        if self._token.kind not in ("word", "quoted"):
            opened = self._token.text == "("
            self._refuse("( is not closed" if opened else f"a value is missing after {operator.text}")
        value = self._take()
        try:
            test = field.asked(operator.text, _unquoted(value))
        except Wrong as wrong:
            self._refuse(wrong.why, value.at)
        read = field.read
        return lambda item: test(read(item))

    def _refuse(self, why: str, at: int | None = None) -> NoReturn:
        raise Wrong(why, self._token.at if at is None else at)


def _unquoted(token: _Token) -> str:
    return token.text[1:-1] if token.kind == "quoted" else token.text
