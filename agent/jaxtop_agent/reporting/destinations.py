"""The runs that a script has open with trackers, and how a report is written into each.

We write only what leaves the script's own history as it is: a row of our own in the history of W&B or Trackio
would take a step of the script's, and W&B drops what the script logs for that step afterwards. A library that
the script has not imported is not imported.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Protocol

from jaxtop.base.clock import now_ms
from jaxtop_agent.reporting.figures import NOTES_TEXT

if TYPE_CHECKING:
    from jaxtop_agent.hooks.trackers import TrackerCalls
    from jaxtop_agent.reporting.figures import TrackerReport

RUNNING = "RUNNING"  # the status of an open run in MLflow


class TrackerRun(Protocol):
    """A tracker."""

    name: str

    def write(self, report: TrackerReport) -> bool:
        """Write a report; return False if the script has no run open. What the library raises is raised."""
        ...


class ToWandb:
    """The summary of the run has the last values; its system metrics have the values of each minute."""

    name = "wandb"

    def write(self, report: TrackerReport) -> bool:
        run = _global("wandb", "run")
        if run is None or getattr(run, "disabled", False) or getattr(run, "_is_finished", False):
            return False
        run.summary.update({**report.numbers, NOTES_TEXT: report.text})
        # These names are not public, and differ by version. Without them, only the last values are known.
        interface = getattr(run, "_interface", None) or getattr(
            getattr(run, "_backend", None), "interface", None
        )
        publish = getattr(interface, "publish_stats", None)
        if publish is not None and not getattr(run.settings, "x_disable_stats", False):
            publish(report.numbers)
        return True


class ToMlflow:
    """Metrics of the run to which the script logged last, at its last step; notes are a tag."""

    name = "mlflow"

    def __init__(self, calls: TrackerCalls | None) -> None:
        self._calls, self._text = calls, ("", "")

    def write(self, report: TrackerReport) -> bool:
        last = None if self._calls is None else self._calls.last(self.name)
        log = None if self._calls is None else self._calls.original(self.name, "log_batch")
        metric, tag = _global("mlflow.entities", "Metric"), _global("mlflow.entities", "RunTag")
        if last is None or log is None or metric is None or tag is None:
            return False
        if last.client.get_run(last.run).info.status != RUNNING:
            return False
        at, text = now_ms(), (last.run, report.text)
        # A run without notes has no tag, unless it had notes before.
        is_new = text != self._text and (bool(report.text) or self._text[0] == last.run)
        log(
            last.client,
            last.run,
            metrics=[metric(name, value, at, last.step) for name, value in report.numbers.items()],
            tags=[tag(NOTES_TEXT, report.text)] if is_new else [],
        )
        self._text = text
        return True


class ToTrackio:
    """System metrics of the run to which the script logged last. They have times and no steps."""

    name = "trackio"

    def __init__(self, calls: TrackerCalls | None) -> None:
        self._calls = calls

    def write(self, report: TrackerReport) -> bool:
        last = None if self._calls is None else self._calls.last(self.name)
        if last is None or last.client._stop_flag.is_set():
            return False
        last.client.log_system(dict(report.numbers))
        return True


def destinations(names: tuple[str, ...], calls: TrackerCalls | None) -> list[TrackerRun]:
    """Return the destinations of these names, which the settings have checked."""
    found: dict[str, TrackerRun] = {
        each.name: each for each in (ToWandb(), ToMlflow(calls), ToTrackio(calls))
    }
    return [found[name] for name in names]


def _global(module: str, name: str) -> Any:
    """Return a global of a module that the script has imported; None if it has not, or not yet as a whole."""
    return vars(sys.modules[module]).get(name) if module in sys.modules else None
