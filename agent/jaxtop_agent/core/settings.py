"""The settings: from the call, else from the environment, else the default."""

from __future__ import annotations

import math
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop.base import debuglog
from jaxtop.base.names import legible, shorten

if TYPE_CHECKING:
    from collections.abc import Mapping

# When profiler windows are taken to measure collectives.
POLICIES = ("auto", "sampled", "on request", "off")
# The trackers into whose runs the agent can write.
TRACKERS = ("wandb", "mlflow", "trackio")
OFF, ON = ("0", "off", "false", "no"), ("1", "on", "true", "yes")

SHORTEST_INTERVAL, USUAL_INTERVAL, LONGEST_INTERVAL = 0.1, 1.0, 60.0
# How many minutes the black box keeps; 0 keeps everything.
MINUTES = 10
# The bounds of the seconds after which a stuck run is ended.
LEAST_STUCK, MOST_STUCK = 5.0, 30 * 86_400.0
MOST_MINUTES, MOST_FLOPS, MOST_BYTES = 1e6, 1e18, 1e15
# The source under which viewers read which settings were ignored, and the length of a value there.
SOURCE, LONGEST_VALUE = "settings", 40
LONGEST_LINEAGE, LONGEST_ROLE = 100, 40
ROLE = "JAXTOP_ROLE"

# An address with a port: all parts before it may be missing, and the path.
SERVED_ADDRESS = re.compile(
    r"(?:http://)?(?P<host>localhost|127(?:\.\d{1,3}){3}|\[::1\])?:?(?P<port>\d{1,5})(?P<path>/[!-~]*)?",
    re.IGNORECASE,
)

# The scripts that run the kernel of a notebook.
_KERNELS = frozenset({"ipykernel_launcher", "colab_kernel_launcher"})


class ServedAt(NamedTuple):
    """Where an engine on this machine serves its figures as Prometheus text."""

    host: str
    port: int
    path: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{self.path}"


class AgentSettings(NamedTuple):
    """The agent's settings."""

    is_on: bool
    name: str | None
    bind: str
    interval: float
    collectives: str = "auto"
    record: Path | None = None
    record_minutes: int = MINUTES
    # The peak rate of each device in operations per second, where the user overrides our table.
    peak_flops: int | None = None
    # A limit of the memory of each device in bytes, where the device itself reports none.
    simulated_limit: int | None = None
    # Whether the ledger is written, its folder, and the name of the job in it.
    ledger: bool = True
    ledger_folder: Path | None = None
    lineage: str = ""
    # The role of the process; empty if nothing states it.
    role: str = ""
    # Viewers may look, but not act.
    read_only: bool = False
    # Seconds after which the agent ends a process of a run that is stuck; 0: never.
    end_if_stuck: float = 0.0
    # The trackers whose open runs receive the agent's figures.
    report_to: tuple[str, ...] = ()
    # Where an engine serves figures that the agent reads.
    scrape: ServedAt | None = None
    # A sentence for each unusable value: the reason, and the value used instead.
    ignored: tuple[str, ...] = ()

    @property
    def minutes(self) -> int:
        """How many minutes the black box keeps: with `end_if_stuck`, also those before the run was stuck."""
        if not (self.record_minutes and self.end_if_stuck):
            return self.record_minutes
        return self.record_minutes + math.ceil(self.end_if_stuck / 60)

    @property
    def sources(self) -> dict[str, str]:
        """Return the ignored values as the state of a source, which viewers receive."""
        return {SOURCE: f"ignored: {'; '.join(self.ignored)}"} if self.ignored else {}


def read(
    name: str | None = None,
    bind: str | None = None,
    interval: float | None = None,
    collectives: str | None = None,
    record: str | os.PathLike[str] | None = None,
    *,
    end_if_stuck: float | None = None,
    role: str | None = None,
    report_to: str | None = None,
    scrape: str | None = None,
) -> AgentSettings:
    """Return the settings in force; a value that cannot be used counts as missing, and is noted."""
    given = _Inputs(
        {
            "interval": interval,
            "collectives": collectives,
            "end_if_stuck": end_if_stuck,
            "report_to": report_to,
            "scrape": scrape,
        }
    )
    settings = AgentSettings(
        is_on=given.flag("JAXTOP", otherwise=True),
        name=name or os.environ.get("JAXTOP_NAME") or None,
        bind=bind or os.environ.get("JAXTOP_BIND") or "auto",
        interval=given.number(
            "JAXTOP_INTERVAL", USUAL_INTERVAL, SHORTEST_INTERVAL, LONGEST_INTERVAL, "interval"
        ),
        collectives=given.policy("JAXTOP_COLLECTIVES", "collectives"),
        record=_whole_path(record or os.environ.get("JAXTOP_RECORD")),
        record_minutes=round(given.number("JAXTOP_RECORD_MINUTES", MINUTES, 0, MOST_MINUTES)),
        peak_flops=round(given.number("JAXTOP_PEAK_FLOPS", 0, 0, MOST_FLOPS)) or None,
        simulated_limit=round(given.number("JAXTOP_SIMULATED_LIMIT", 0, 0, MOST_BYTES)) or None,
        ledger=(folder := os.environ.get("JAXTOP_LEDGER", "").strip()).lower() not in OFF,
        ledger_folder=_whole_path(None if folder.lower() in OFF + ON else folder),
        lineage=os.environ.get("JAXTOP_LINEAGE", "").strip()[:LONGEST_LINEAGE],
        role=named_role(role or os.environ.get(ROLE)),
        # An unclear value forbids: too few rights do less harm than too many.
        read_only=given.flag("JAXTOP_READONLY", otherwise=bool(os.environ.get("JAXTOP_READONLY"))),
        end_if_stuck=given.number("JAXTOP_END_IF_STUCK", 0, LEAST_STUCK, MOST_STUCK, "end_if_stuck"),
        report_to=given.trackers("JAXTOP_REPORT_TO", "report_to"),
        scrape=given.served_at("JAXTOP_SCRAPE", "scrape"),
        ignored=tuple(given.ignored),  # the last field: those above add to it
    )
    for each in settings.ignored:
        debuglog.warning("settings", each)
    return settings


def _whole_path(given: str | os.PathLike[str] | None) -> Path | None:
    """Return a path as it is now: the script may change its working directory."""
    if not given:
        return None
    try:
        return Path(given).expanduser().absolute()
    except (OSError, RuntimeError):  # no such home, no working directory: who writes there says so
        return Path(given)


def named_role(given: object) -> str:
    """Return a role as messages have it; empty if there is none."""
    return legible(str(given).strip())[:LONGEST_ROLE] if given else ""


def bounded(interval: float) -> float:
    finite = float(interval) if math.isfinite(interval) else USUAL_INTERVAL
    return min(max(finite, SHORTEST_INTERVAL), LONGEST_INTERVAL)


class _Inputs:
    """The values from the call and the environment; lists the values that cannot be used."""

    def __init__(self, arguments: Mapping[str, object]) -> None:
        self._arguments = arguments
        self.ignored: list[str] = []

    def flag(self, variable: str, *, otherwise: bool) -> bool:
        word = os.environ.get(variable, "").strip().lower()
        if word in OFF + ON:
            return word in ON
        if word:
            self._ignore(variable, word, "neither 1 nor 0", ON[0] if otherwise else OFF[0])
        return otherwise

    def number(
        self, variable: str, usual: float, least: float, most: float, argument: str | None = None
    ) -> float:
        """Return the number. One outside its bounds is moved into them, or dropped if the usual is none."""
        name, value = self._value(variable, argument)
        if value is None or value == "" or (not usual and str(value).strip().lower() in OFF):
            return usual
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if math.isnan(number):
            self._ignore(name, value, "not a number", f"{usual:g}" if usual else "none")
            return usual
        within = min(max(number, least), most)
        if within == number:
            return number
        self._ignore(name, value, f"not between {least:g} and {most:g}", f"{within:g}" if usual else "none")
        return within if usual else usual

    def policy(self, variable: str, argument: str) -> str:
        name, value = self._value(variable, argument)
        word = str(value or "").strip().lower()
        if word in POLICIES:
            return word
        if word:
            self._ignore(name, value, f"not one of {', '.join(POLICIES)}", POLICIES[0])
        return POLICIES[0]

    def trackers(self, variable: str, argument: str) -> tuple[str, ...]:
        """Return the trackers that are named, in a text with commas; those that do not exist are left out."""
        name, value = self._value(variable, argument)
        listed = value if isinstance(value, list | tuple) else str(value or "").split(",")
        words = dict.fromkeys(str(each).strip().lower() for each in listed)
        found = tuple(each for each in words if each in TRACKERS)
        if any(each and each not in TRACKERS + OFF for each in words):
            self._ignore(name, value, f"not one of {', '.join(TRACKERS)}", ", ".join(found) or "none")
        return found

    def served_at(self, variable: str, argument: str) -> ServedAt | None:
        """Return where figures are served: on this machine, under a name that no server has to resolve."""
        name, value = self._value(variable, argument)
        words = str(value or "").strip()
        if not words or words.lower() in OFF:
            return None
        found = SERVED_ADDRESS.fullmatch(words)
        if found is None or not 0 < (port := int(found["port"])) < 1 << 16:
            why = "no address of this machine, such as http://127.0.0.1:8000/metrics"
            self._ignore(name, value, why, "none")
            return None
        host = (found["host"] or "localhost").strip("[]").lower()
        return ServedAt("127.0.0.1" if host == "localhost" else host, port, found["path"] or "/metrics")

    def _value(self, variable: str, argument: str | None) -> tuple[str, Any]:
        """Return the value of the argument, else of the variable, with the name to call it by."""
        passed = self._arguments.get(argument or "")
        return (f"{argument}=", passed) if passed is not None else (variable, os.environ.get(variable))

    def _ignore(self, name: str, value: object, why: str, used: str) -> None:
        sign = "" if name.endswith("=") else "="
        shown = shorten(legible(repr(value)), LONGEST_VALUE)
        self.ignored.append(f"{name}{sign}{shown} is {why}; {used} is used")


def script_name() -> str:
    """Return the name of a run that the user gives none."""
    first = sys.argv[0] if sys.argv else ""
    if first in {"", "-c", "-m"}:
        return "python"
    path = Path(first)
    if path.stem in _KERNELS:  # Jupyter names the notebook
        return Path(os.environ.get("JPY_SESSION_NAME", "")).stem or "notebook"
    # A package run with -m is named after its folder, because "__main__" identifies nothing.
    return path.parent.name if path.stem == "__main__" else path.stem
