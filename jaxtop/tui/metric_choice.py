"""The metric that colours the mesh: the user's choice, kept current as collectives change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jaxtop.tui.metrics import METRICS, Metric, groups_metric, slice_metric, wait_metric
from jaxtop.tui.moment import EMPTY, Moment, Selection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.model import DeviceView


class MetricChoice:
    """The chosen metric, and the metrics to choose from."""

    def __init__(self) -> None:
        self.metric = METRICS[0]
        self._moment: Moment = EMPTY
        # The metric of waits with the version of its inputs. It is rebuilt when the collectives change.
        self._waits: tuple[object, Metric] = (None, wait_metric(EMPTY))
        # The slices of an array or the groups of a collective that the user chose to show.
        self._painted: Metric | None = None
        self._collective: tuple[tuple[Any, ...], object] | None = None
        # The last selection with an array or a collective. It is painted once, not at each return here.
        self._drilled: Selection | None = None

    def see(self, moment: Moment) -> None:
        """Update the metrics of collectives when new windows have arrived."""
        self._moment = moment
        cluster = moment.cluster
        version = id(cluster.windows), cluster.windows.changes, cluster.layout_changes
        if self._waits[0] == version:
            return
        was, now = self._waits[1], wait_metric(moment)
        self._waits = version, now
        was_painted, now_painted = self._painted, self._groups()
        if now_painted is not None:
            self._painted = now_painted
        if self.metric is was:
            self.metric = now
        elif self.metric is was_painted and now_painted is not None:
            self.metric = now_painted

    def paint(self, selection: Selection) -> bool:
        """Show the array or collective selected on another screen. Return whether the metric changed."""
        if (selection.array is None and selection.collective is None) or selection is self._drilled:
            return False
        self._drilled = selection
        if selection.collective is not None:
            self._collective = selection.collective, None
            found = self._groups()
        else:
            view = next((view for view in self._moment.arrays if view.key == selection.array), None)
            self._collective = None
            found = None if view is None else slice_metric(view)
        if found is None:
            return False
        self._painted = self.metric = found
        return True

    def next(self, devices: Sequence[DeviceView]) -> None:
        """Choose the next metric that some device reports."""
        metrics = [*METRICS, self._waits[1], *([self._painted] if self._painted is not None else [])]
        at = metrics.index(self.metric) if self.metric in metrics else 0
        current = [device for device in devices if not device.state.has_exited]
        following = [*metrics[at + 1 :], *metrics[: at + 1]]
        self.metric = next((each for each in following if each.is_reported(current)), METRICS[0])

    def _groups(self) -> Metric | None:
        """Return the metric of the chosen collective's groups; None if there is none or nothing changed."""
        if self._collective is None:
            return None
        key, before = self._collective
        view = next((view for view in self._moment.collectives if view.key == key), None)
        shown = None if view is None else (view.groups, view.straggler, id(view.waits_us))
        if view is None or shown == before:
            return None
        self._collective = key, shown
        return groups_metric(view)
