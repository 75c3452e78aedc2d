"""A sampled window of the profiler: its launches, and the duration of each collective in them."""

from __future__ import annotations

from msgspec import Struct

from jaxtop.wire.bounds import SpanMs, TimeMs, WireInteger  # noqa: TC001 - msgspec reads the annotations

# A window with a larger share of unassigned device time is empty.
MOST_UNASSIGNED_PERMILLE = 100


class Launch(Struct, frozen=True, array_like=True):
    """A launch of a program that is completely inside the window, on the local device that took longest.

    `program` is a position in the window's list. The number is the same in all processes that launched
    together; None if it is unknown. `collective_us` is the time within collectives, `exposed_us` the part of
    it in which nothing else ran on that device; None where the trace does not show it.
    """

    program: WireInteger
    number: WireInteger | None
    start_us: WireInteger
    duration_us: WireInteger
    collective_us: WireInteger | None = None
    exposed_us: WireInteger | None = None


class Round(Struct, frozen=True, array_like=True):
    """One collective of one launch: its duration on each local device, in the order of Hello.devices.

    `launch` and `op` are positions in the window's lists; `round` numbers the rounds of a loop, from 0.
    `start_us` is that of the device that came first.
    """

    launch: WireInteger
    op: WireInteger
    round: WireInteger
    start_us: WireInteger
    durations_us: tuple[WireInteger | None, ...]


class Window(Struct, frozen=True, omit_defaults=True, tag="window"):
    """The content of one window. `at_ms` is its start by the agent's clock; other times are relative to it.

    `programs` are (name, fingerprint); the fingerprint is None if several programs of that name are loaded.
    `slot` is the common slot of the wall clock, None for a window on request. `unsent` counts what did not
    fit; `note` is the reason if the window is empty. `is_capture`: it was read from a full profile.
    `unassigned_permille` is the share of the programs' device time that belongs to no launch. If it is large,
    launches may be missing without a sign, so the window is empty.

    Where launches are numbered by counting, `common_us` is the start by the clock of process 0, in
    microseconds since the epoch, and the clocks differ by at most `clock_error_us`; None if unknown.
    `every_ms` is the time until the next window, at most, unless its cost changes; 0 if unknown.
    """

    at_ms: TimeMs
    duration_us: WireInteger
    slot: WireInteger | None = None
    programs: tuple[tuple[str, str | None], ...] = ()
    ops: tuple[str, ...] = ()
    launches: tuple[Launch, ...] = ()
    rounds: tuple[Round, ...] = ()
    unsent: WireInteger = 0
    note: str = ""
    is_capture: bool = False
    unassigned_permille: WireInteger = 0
    common_us: WireInteger | None = None
    clock_error_us: WireInteger = 0
    every_ms: SpanMs = 0

    @property
    def is_short(self) -> bool:
        """Whether it shows launches and is not a capture."""
        return bool(self.launches) and not self.is_capture

    def launched(self) -> dict[str, dict[str | None, int]]:
        """Return the number of launches of each program, by name and then by fingerprint."""
        found: dict[str, dict[str | None, int]] = {}
        for launch in self.launches:
            name, fingerprint = self.programs[launch.program]
            counts = found.setdefault(name, {})
            counts[fingerprint] = counts.get(fingerprint, 0) + 1
        return found
