"""The ledger screen: what the run has spent its time on since it started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.features.ledger import collect
from jaxtop.features.ledger.page import page
from jaxtop.tui.screens.base import ScreenPane
from jaxtop.tui.widgets.detail import Detail

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from jaxtop.features.ledger.model import JobLedger
    from jaxtop.tui.core.moment import Moment


class _Page(Detail, can_focus=True):
    """The page, which has the focus: it has no rows to choose from."""


class LedgerScreen(ScreenPane):
    """The ledgers of the runs."""

    DEFAULT_CSS = """
    LedgerScreen _Page { height: 1fr; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._page = _Page()
        self._jobs: list[JobLedger] = []

    def compose(self) -> ComposeResult:
        yield self._page

    @property
    def first_focus(self) -> _Page:
        return self._page

    def _prepare(self, moment: Moment) -> None:
        self._jobs = collect.ledgers_of_cluster(moment.cluster, moment.now)

    def _draw(self) -> None:
        jobs, now, ink = self._jobs, self.moment.now, self.ink
        if not jobs:
            self._page.show(
                lambda _width, _height: [Text("nothing added up yet: waiting for a run", ink.note)]
            )
            return
        self._page.show(lambda width, height: page(jobs, now, ink, (width, height)))
