"""Devices that run slower than they could, or whose memory has errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.model.finding import Evidence, Finding, Proof, Severity, Subject
from jaxtop.model.findings.rule import Rule, Unmeasured
from jaxtop.model.host import figure
from jaxtop.model.hosts import named
from jaxtop.wire import SLOWED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.host import Host

# Limits that a device reaches in a busy healthy run, or that a person has set.
_NOTES = frozenset({"power limit", "other devices", "clocks set by hand"})
_DRIVER = "driver"


def _throttled(facts: RunFacts) -> Iterator[Finding]:
    """Yield one finding for each reason, with the device that is slowest for it."""
    is_known = False
    found: dict[str, list[tuple[Host, int]]] = {}
    for view in facts.reporting:
        for position, bits in enumerate(view.now.pulse.devices.slowed or ()):
            is_known |= bits is not None
            if bits:
                for i, reason in enumerate(SLOWED):
                    if bits >> i & 1:
                        found.setdefault(reason, []).append((view.now, position))
    if not is_known:
        raise Unmeasured("no driver reports why devices slow down")
    for reason, places in found.items():
        yield _slowed(facts, reason, places)


def _slowed(facts: RunFacts, reason: str, places: list[tuple[Host, int]]) -> Finding:
    def clock(place: tuple[Host, int]) -> float:
        sample = place[0].pulse.devices
        now, most = figure(sample.clock_mhz, place[1]), figure(sample.clock_max_mhz, place[1])
        return 1.0 if now is None or not most else now / most

    worst = min(places, key=clock)
    host, position = worst
    sample, device_id = host.pulse.devices, _device_id(host, position)
    now, most = figure(sample.clock_mhz, position), figure(sample.clock_max_mhz, position)
    heat, power = figure(sample.temperature_c, position), figure(sample.power_mw, position)
    clocks = "" if now is None or most is None else f", {now:,} of {most:,} MHz"
    degrees = "" if heat is None else f", {heat} °C"
    # Clocks of idle devices fall, too.
    agents = {each.agent for each, _ in places}
    is_cause = bool(facts.late) and facts.late <= agents and len(agents) < len(facts.present)
    is_note = reason in _NOTES and not is_cause
    return Finding(
        "throttled",
        Severity.INFO if is_note else Severity.WARNING,
        0.9,
        facts.run.id,
        f"{_devices(places)} run{'s' if len(places) == 1 else ''} slower because of {reason}: device "
        f"{device_id}"
        f"{clocks}{degrees}",
        Subject(agent=host.agent, process_index=host.process_index, device_id=device_id),
        about=reason,
        evidence=(
            Evidence("devices", len(places), source=_DRIVER, at=host.pulse_at),
            Evidence("clock, of its maximum", clock(worst), "ratio", _DRIVER, host.pulse_at),
            Evidence("temperature", heat, "celsius", _DRIVER, host.pulse_at),
            Evidence("power", None if power is None else power / 1000, "watts", _DRIVER, host.pulse_at),
        ),
        proof=Proof("devices", row=host.agent, column="clock_hz"),
        explains=(*_EXPLAINS, "straggler", "uneven_work") if is_cause else _EXPLAINS,
    )


def _device_id(host: Host, position: int) -> int | None:
    devices = host.hello.devices if host.hello else ()
    return devices[position].id if position < len(devices) else None


def _devices(places: list[tuple[Host, int]]) -> str:
    hosts = list({host.agent: host for host, _ in places}.values())
    count = "1 device" if len(places) == 1 else f"{len(places)} devices"
    return f"{count} of {named(hosts)}"


def _memory_errors(facts: RunFacts) -> Iterator[Finding]:
    columns = [(view.now, view.now.pulse.devices.ecc_uncorrected) for view in facts.reporting]
    if not any(column for _, column in columns):
        raise Unmeasured("no driver counts memory errors")
    found = [
        (count, host, position)
        for host, column in columns
        for position, count in enumerate(column or ())
        if count
    ]
    if not found:
        return
    count, host, position = max(found, key=lambda each: each[0])
    device_id = _device_id(host, position)
    places = [(host, position) for _, host, position in found]
    yield Finding(
        "memory_errors",
        Severity.WARNING,
        0.9,
        facts.run.id,
        f"{_devices(places)} had memory errors that were not corrected: {count:,} on device {device_id}",
        Subject(agent=host.agent, process_index=host.process_index, device_id=device_id),
        evidence=(Evidence("uncorrected memory errors", count, source=_DRIVER, at=host.pulse_at),),
        proof=Proof("devices", row=host.agent),
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
        threshold="any uncorrected error since the driver was loaded",
        rationale="Results may be wrong, and the next error ends the process.",
        source="the driver of the device",
        advice="Reset or replace the device, and compare the last checkpoints with earlier ones.",
        check=_memory_errors,
    ),
)
