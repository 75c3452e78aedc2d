"""The checklist that is shown before the first step is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from jaxtop.base import units
from jaxtop.model.host import longest_compile
from jaxtop.model.naming.sentences import counted
from jaxtop.tui.core import text
from jaxtop.tui.draw.overview.panels import OverviewPanel, fixed
from jaxtop.tui.draw.panel import Heading

if TYPE_CHECKING:
    from jaxtop.tui.core.moment import Moment
    from jaxtop.tui.draw.ink import Ink

# Whether a stage is behind the run, is where it is, or is ahead.
DONE, NOW, AHEAD = "✓", "▸", "·"


class StartStage(NamedTuple):
    """A stage of the start: whether it is done, and what is known of it."""

    sign: str
    words: str
    note: str = ""


def start_stages(moment: Moment) -> list[StartStage]:
    """Return the stages of the start of the runs; without any, how to start one."""
    views = moment.host_views
    if not views:
        tried = [(f"{each.endpoint}", each.why) for each in moment.cluster.unmet.values()]
        return [
            StartStage(NOW, "waiting for a run", ""),
            *(StartStage(AHEAD, where, text.printable(why)) for where, why in tried),
            StartStage(AHEAD, "jaxtop run train.py", "starts one, unmodified"),
            StartStage(AHEAD, "jaxtop demo", "shows what this is like, on this machine"),
        ]
    hosts = [view.host for view in views]
    greeted = [host for host in hosts if host.hello is not None]
    _, expected = moment.live_and_expected
    with_devices = [host for host in greeted if host.devices]
    longest = max(filter(None, (longest_compile(view.current.pulse) for view in views)), default=None)
    launched = [host for host in hosts if any(host.launches.values())]
    stages = [
        (len(greeted) >= expected, f"connected to {len(greeted)} of {counted(expected, hosts)}", ""),
        (
            bool(greeted) and len(with_devices) == len(greeted),
            "JAX has its devices",
            f"{len(moment.device_views)} devices" if with_devices else "imports and starts",
        ),
    ]
    if longest is not None:
        seconds, function = longest
        stages.append((False, f"compiling {function}", f"for {units.age(seconds)}"))
    elif any(host.compiled is not None or host.programs.programs for host in hosts):
        loaded = max(len(host.programs.programs) for host in hosts)
        stages.append((True, "compiled", f"{loaded} programs" if loaded else ""))
    else:
        stages.append((bool(launched), "compiles the step", ""))
    first = f"on {len(launched)} of {counted(len(hosts), hosts)}" if launched else ""
    stages.append((bool(launched) and len(launched) == len(hosts), "first launch", first))
    stages.append((False, "first steps", "a step is known once it has repeated"))
    found, is_here = [], True
    for is_done, words, note in stages:
        found.append(StartStage(DONE if is_done else NOW if is_here else AHEAD, words, note))
        is_here = is_here and is_done
    return found


def starting(stages: list[StartStage], ink: Ink) -> OverviewPanel | None:
    """Return the panel; None where no process is known."""
    if not stages:
        return None
    styles = {DONE: ink.style(ink.palette.good), NOW: ink.accent, AHEAD: ink.note}
    words = {DONE: ink.label, NOW: ink.figure, AHEAD: ink.note}
    lines = [
        Text.assemble(
            (f"{each.sign} ", styles[each.sign]), (each.words, words[each.sign]), (f"  {each.note}", ink.note)
        )
        for each in stages
    ]
    wants, draw = fixed(lines)
    return OverviewPanel(
        Heading("Start of the run", keys=(("9", "Stacks"),)), "stacks", wants, draw, lambda _: lines
    )
