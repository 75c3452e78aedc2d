"""The result of a capture: its files, the processes without a trace, and the printed text about both."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from jaxtop.base.units import in_bytes, in_ms
from jaxtop.cli.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.features.captures.capture import Capture
    from jaxtop.features.captures.comparison import DurationRow
    from jaxtop.features.captures.finish import FinishedCapture, ProcessesAtStart
    from jaxtop.features.captures.folder import CaptureFolder

# The exit status where no process sent a trace.
NONE_CAPTURED = 2
# Of the comparison, this many programs and collectives are printed; the file has more.
MAX_ROWS = 3
_BAR = 24


def bar(share: float) -> str:
    full = round(share * _BAR)
    return f"[{'#' * full}{'.' * (_BAR - full)}] {share * 100:.0f}%"


def finished(
    folder: CaptureFolder,
    about: ProcessesAtStart,
    job: Capture,
    progress: Callable[[float], object],
    pause: Callable[[], object] = lambda: None,
) -> FinishedCapture:
    """Make the files of a capture that is done; raise `UserError` if no process sent a trace."""
    from jaxtop.features.captures.finish import TakenTrace, finish  # imports the model: errors must be fast

    if not job.complete:
        folder.drop_drafts()
        raise UserError("nothing was captured: " + "; ".join(failures(about, job)), NONE_CAPTURED)
    taken = [
        TakenTrace(each.agent, each.is_complete, each.text, each.size, each.lasted_us)
        for each in job.members.values()
    ]
    try:
        return finish(folder, about, taken, began_ms=round(job.at * 1000), progress=progress, pause=pause)
    except OSError as error:
        raise UserError(f"{folder.root} cannot be written: {error.strerror or error}", 1) from None


def failures(about: ProcessesAtStart, job: Capture) -> list[str]:
    """Return why processes sent no trace, each reason once."""
    failed = [each for each in job.members.values() if not each.is_complete]
    counts = Counter(each.text for each in failed)
    found = []
    for why, count in counts.items():
        who = next(about.hosts[each.agent].label for each in failed if each.text == why)
        found.append(f"{who if count == 1 else f'{count} processes'}: {why}")
    return found


def summary(job: Capture, result: FinishedCapture) -> list[str]:
    """Return what was captured, where it is and how far to trust it, one line each."""
    complete = job.complete
    lasted = sorted(each.lasted_us / 1e6 for each in complete)
    times = f"{lasted[0]:.2f}" if lasted[-1] - lasted[0] < 0.05 else f"{lasted[0]:.2f} to {lasted[-1]:.2f}"
    many = in_bytes(sum(each.size for each in complete))
    root = result.folder.root
    lines = [
        f"captured {len(complete)} of {len(job.members)} processes for {times} s, {many}",
        f"  XProf     xprof --logdir {root}  (or tensorboard --logdir), run {result.folder.name}",
    ]
    if result.why_not_merged:
        lines.append(f"  Perfetto  no merged trace: {result.why_not_merged}")
    else:
        lines.append(f"  Perfetto  {result.folder.perfetto}  (open it in ui.perfetto.dev)")
        lines.append(f"  clocks    {result.clocks}")
    lines.append("  jaxtop    Operations (O) and Collectives (6) show it until the next short window")
    lines += [f"  {line}" for line in _compared_lines(result.compared)]
    lines += [f"  note      {note}" for note in result.notes]
    notes = Counter(each.text for each in complete if each.text)
    lines += [f"  note      {note} ({count} of {len(complete)} processes)" for note, count in notes.items()]
    return lines


def _compared_lines(rows: list[DurationRow]) -> list[str]:
    """Return how much longer programs and collectives look in the capture than in short windows."""
    shown = [each for each in rows if each.op is None][:MAX_ROWS]
    shown += [each for each in rows if each.op is not None][:MAX_ROWS]
    if not any(each.factor for each in shown):
        return ["windows   n/a: there is no short window of the same programs to compare with"]
    lines = []
    for each in shown:
        name = each.program if each.op is None else f"{each.op} of {each.program}"
        short = "n/a"
        if each.factor is not None and each.window_us is not None:
            short = f"{in_ms(each.window_us / 1000)} in short windows: {each.factor:.2f} times as long"
        lines.append(f"windows   {name}: {in_ms(each.capture_us / 1000)} here, {short}")
    return lines
