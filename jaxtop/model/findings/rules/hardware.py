"""Devices that run slower than they could, or whose memory has errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.finding import Evidence, Finding, Proof, Severity, Subject
from jaxtop.model.findings.rule import Rule, Unmeasured
from jaxtop.model.host import device_entry
from jaxtop.model.naming.sentences import host_names
from jaxtop.wire import SLOWED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.host import Host

# Limits that a device reaches in a busy healthy run, or that a person has set.
_NOTES = frozenset({"power limit", "other devices", "clocks set by hand"})
_DRIVER = "driver"


class _Device(NamedTuple):
    """A device of a host, by its position."""

    host: Host
    position: int

    @property
    def id(self) -> int | None:
        devices = self.host.devices
        return devices[self.position].id if self.position < len(devices) else None

    @property
    def clock_share(self) -> float | None:
        """Its clock as a share of its maximum."""
        now, most = self.figure("clock_mhz"), self.figure("clock_max_mhz")
        return None if now is None or not most else now / most

    def figure(self, name: str) -> int | None:
        """Return a figure of its sample; None where unknown."""
        return device_entry(getattr(self.host.pulse.devices, name), self.position)


def _throttled(facts: RunFacts) -> Iterator[Finding]:
    """Yield one finding for each reason, with the device that is slowest for it."""
    known = [
        (_Device(view.current, position), bits)
        for view in facts.reporting
        for position, bits in enumerate(view.current.pulse.devices.slowed or ())
        if bits is not None
    ]
    if not known:
        raise Unmeasured("no driver reports why devices slow down")
    for i, reason in enumerate(SLOWED):
        if devices := [device for device, bits in known if bits >> i & 1]:
            yield _slowed(facts, reason, devices)


def _slowed(facts: RunFacts, reason: str, devices: list[_Device]) -> Finding:
    worst = min(devices, key=lambda each: 1.0 if each.clock_share is None else each.clock_share)
    at, now, most = worst.host.pulse_at, worst.figure("clock_mhz"), worst.figure("clock_max_mhz")
    heat, power = worst.figure("temperature_c"), worst.figure("power_mw")
    clocks = "" if now is None or most is None else f", {now:,} of {most:,} MHz"
    degrees = "" if heat is None else f", {heat} °C"
    # Clocks of idle devices fall, too.
    is_cause = facts.has_all_stragglers({each.host.agent for each in devices})
    return Finding(
        Severity.INFO if reason in _NOTES and not is_cause else Severity.WARNING,
        0.9,
        f"{_named(devices)} run{'s' if len(devices) == 1 else ''} slower because of {reason}: device "
        f"{worst.id}{clocks}{degrees}",
        Subject.of(worst.host, device_id=worst.id),
        about=reason,
        evidence=(
            Evidence("devices", len(devices), source=_DRIVER, at=at),
            Evidence("clock, of its maximum", worst.clock_share, "ratio", _DRIVER, at),
            Evidence("temperature", heat, "celsius", _DRIVER, at),
            Evidence("power", None if power is None else power / 1000, "watts", _DRIVER, at),
        ),
        proof=Proof("devices", row=worst.host.agent, column="clock_hz"),
        explains=(*_EXPLAINS, "straggler", "uneven_work") if is_cause else _EXPLAINS,
    )


def _named(devices: list[_Device]) -> str:
    hosts = list({each.host.agent: each.host for each in devices}.values())
    count = "1 device" if len(devices) == 1 else f"{len(devices)} devices"
    return f"{count} of {host_names(hosts)}"


def _memory_errors(facts: RunFacts) -> Iterator[Finding]:
    """Yield one finding for all devices with errors; its subject is the one with most."""
    known = [
        (count, _Device(view.current, position))
        for view in facts.reporting
        for position, count in enumerate(view.current.pulse.devices.ecc_uncorrected or ())
        if count is not None
    ]
    if not known:
        raise Unmeasured("no driver counts memory errors")
    count, worst = max(known, key=lambda each: each[0])
    if not count:
        return
    who, at = _named([device for errors, device in known if errors]), worst.host.pulse_at
    yield Finding(
        Severity.WARNING,
        0.9,
        f"{who} had memory errors that were not corrected: {count:,} on device {worst.id}",
        Subject.of(worst.host, device_id=worst.id),
        evidence=(Evidence("uncorrected memory errors", count, source=_DRIVER, at=at),),
        proof=Proof("devices", row=worst.host.agent),
    )


_EXPLAINS = ("slower_than_before",)

RULES = (
    Rule(
        name="throttled",
        title="Throttled",
        threshold="the driver reports a reason for 10 s; a note for limits that were set, unless the host "
        "is late",
        rationale="One slow device holds up all others in each collective.",
        source="the driver of the device",
        advice="Heat: look at the fans, the air flow and the neighbours. Power: compare the limit with "
        "that of the others (nvidia-smi -q -d POWER,PERFORMANCE).",
        check=_throttled,
        holds_for=10.0,
        stays_for=30.0,
        explains=_EXPLAINS,
    ),
    Rule(
        name="memory_errors",
        title="Memory errors",
        threshold="the driver has counted an uncorrected error since it was loaded",
        rationale="Results may be wrong, and the next error ends the process.",
        source="the driver of the device",
        advice="Reset or replace the device, and compare the last checkpoints with earlier ones.",
        check=_memory_errors,
    ),
)
