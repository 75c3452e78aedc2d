"""Parts of the agent that are off, and black boxes that are not written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.base.names import shorten
from jaxtop.model.finding import Evidence, Finding, Proof, Severity, Subject
from jaxtop.model.findings.rule import Rule
from jaxtop.model.naming.sentences import acting, host_names, several

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.host import Host

# What is not shown while a part is off. Without the first ones the questions "is it healthy" and "is the
# memory full" have no answer, so these are a warning.
_NEEDED = {
    "devices": "devices",
    "sampler": "any figure of JAX",
    "launches": "steps, rates and stalls",
    "rhythm": "step times",
    "memory": "device memory",
    "roster": "the other processes",
}
_USEFUL = {
    "arrays": "arrays and what grows",
    "programs": "programs and their collectives",
    "collectives": "durations of collectives and stragglers",
    "compiles": "compilations",
    "hardware": "power, heat and clocks",
    "host": "CPU and memory of the machine",
    "stalls": "hangs",
    "run file": "the process in `jaxtop ls`",
}
# Reasons that are not trouble: the machine has no such thing, or a person chose it.
_INTENDED = ("host's own CPUs", "switched off", "JAXTOP_", "a person may be typing")
# Reasons that are limits of what can be seen: a note, whatever is missing.
_LIMITS = ("JAX checks each launch itself", "not visible", "not all launches are counted")
# The black box has its own rule.
_RECORDING = "recording"
# The source under which agents say which settings they ignore, and how that text begins.
_SETTINGS, _IS_IGNORED = "settings", "ignored: "
MAX_PARTS = 3
LONGEST_REASON = 50


def _parts_off(facts: RunFacts) -> Iterator[Finding]:
    """Yield a finding for each reason for which parts are off: a thread that ended switches off several."""
    by_reason: dict[str, dict[str, list[Host]]] = {}
    for view in facts.present:
        sources = view.host.hello.sources if view.host.hello is not None else {}
        for part, state in sources.items():
            if part == "stalls" and view.host.is_off("launches"):
                continue  # that is why
            if state.startswith("off") and part != _RECORDING:
                why = state.partition(": ")[2] or "no reason given"
                if not any(word in why for word in _INTENDED):
                    by_reason.setdefault(why, {}).setdefault(part, []).append(view.host)
    for why, parts in by_reason.items():
        yield _part_off(facts, why, parts)


def _part_off(facts: RunFacts, why: str, parts: dict[str, list[Host]]) -> Finding:
    names = sorted(parts, key=lambda part: (part not in _NEEDED, part))
    hosts = max(parts.values(), key=len)
    is_limit = any(word in why for word in _LIMITS)
    is_needed = names[0] in _NEEDED and not is_limit
    shown = ", ".join(names[:MAX_PARTS]) + (f" and {len(names) - 3} more" if len(names) > MAX_PARTS else "")
    where = "" if len(hosts) == len(facts.present) else f" on {host_names(hosts)}"
    lost = (_NEEDED | _USEFUL).get(names[0])
    return Finding(
        Severity.WARNING if is_needed else Severity.INFO,
        1.0,
        f"{shown} {'are' if len(names) > 1 else 'is'} off{where}: {shorten(why, LONGEST_REASON)}"
        + (f"; no view of {lost}" if lost else ""),
        Subject(agent=hosts[0].agent, process_index=hosts[0].process_index if where else None),
        about=names[0],
        evidence=(
            *(Evidence(part, f"off: {why}", source="agent") for part in names),
            Evidence(several(hosts), len(hosts), source="agents"),
        ),
        proof=Proof("hosts", row=hosts[0].agent),
    )


def _black_box(facts: RunFacts) -> Iterator[Finding]:
    """Yield one finding for all hosts that do not write the black box that they were asked for."""
    found = [(view.host, why) for view in facts.present if (why := view.host.black_box_trouble)]
    if not found:
        return
    (first, why), hosts = found[0], [host for host, _ in found]
    yield Finding(
        Severity.WARNING,
        1.0,
        acting(hosts, why, why.replace("writes", "write", 1)),
        Subject.of(first),
        evidence=(Evidence("black box", why, source="agent"),),
        proof=Proof("hosts", row=first.agent),
    )


def _ignored(facts: RunFacts) -> Iterator[Finding]:
    """Yield one finding for each text on ignored settings: most often all hosts have the same."""
    found: dict[str, list[Host]] = {}
    for view in facts.present:
        state = view.host.hello.sources.get(_SETTINGS, "") if view.host.hello is not None else ""
        if state.startswith(_IS_IGNORED):
            found.setdefault(state.removeprefix(_IS_IGNORED), []).append(view.host)
    for why, hosts in found.items():
        where = "" if len(hosts) == len(facts.present) else f" on {host_names(hosts)}"
        yield Finding(
            Severity.INFO,
            1.0,
            f"{why}{where}",
            Subject(agent=hosts[0].agent, process_index=hosts[0].process_index if where else None),
            about=why,
            evidence=(Evidence(several(hosts), len(hosts), source="agents"),),
            proof=Proof("hosts", row=hosts[0].agent),
        )


def _hellos(facts: RunFacts) -> list[object]:
    return [view.host.hello for view in facts.present]


RULES = (
    Rule(
        name="parts_off",
        title="Parts off",
        threshold="a part of an agent is off, but not on purpose; a warning if it failed and is one of "
        f"{', '.join(_NEEDED)}",
        rationale="What is not measured cannot be found: a rule without its figures is not checked.",
        source="the states of the agents' sources",
        advice="`jaxtop doctor` in the environment of the run says what works there and why not.",
        check=_parts_off,
        inputs=_hellos,
    ),
    Rule(
        name="black_box",
        title="No black box",
        threshold="a process that was asked to record itself does not write, or its disk has not answered "
        "for 10 s",
        rationale="If the process dies now, nothing of its last minutes remains.",
        source="the recording thread of the agent",
        advice="Free space on that disk, or give another folder: agent.start(record=…), JAXTOP_RECORD.",
        check=_black_box,
        holds_for=0.0,  # nothing is lost on a disk for a moment only
        inputs=_hellos,
    ),
    Rule(
        name="setting_ignored",
        title="Setting ignored",
        threshold="a setting of an agent, in its call or its environment, has a value that cannot be used",
        rationale="Whoever set it believes that it is in force.",
        source="the agents",
        advice="Correct the value: docs/scripting.md lists the variables and what they may be.",
        check=_ignored,
        holds_for=0.0,
        inputs=_hellos,
    ),
)
