"""The bell of the terminal and desktop notifications, when a critical finding begins or ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.model.finding import Severity
from jaxtop.model.findings.alerts import STARTS, Alert, AlertBook
from jaxtop.tui.core.text import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from textual.app import SystemCommand

    from jaxtop.model import Cluster
    from jaxtop.model.finding import FindingKey

OFF, AUTO, OSC9, OSC777 = "off", "auto", "osc9", "osc777"
# The forms in which terminals take notifications.
FORMS = (OFF, AUTO, OSC9, OSC777)
# Terminals that take OSC 777 and not OSC 9. All others that notify take OSC 9, or ignore it.
_TAKE_777 = ("rxvt", "foot")
# At most one notification in this many seconds; what happens meanwhile is in the next one.
EVERY = 10.0
MAX_CHARS = 200
BELL = "\a"


class Notifier:
    """Decides what is notified, and returns the codes for the terminal. By default all is off."""

    def __init__(
        self, *, bell: bool = False, desktop: str = OFF, environ: Mapping[str, str] | None = None
    ) -> None:
        self.rings = bell
        self._environ = environ or {}
        self._form = _usual_form(self._environ) if desktop in (OFF, AUTO) else desktop
        self.is_on_desktop = desktop != OFF
        self._last: float | None = None
        self.forget()

    def forget(self) -> None:
        """Begin with another run."""
        self._book = AlertBook(Severity.CRITICAL)
        self._checked_at = 0.0
        self._pending: list[Alert] = []

    def toggle_bell(self) -> None:
        self.rings = not self.rings

    def toggle_desktop(self) -> None:
        self.is_on_desktop = not self.is_on_desktop

    def commands(self) -> Iterator[SystemCommand]:
        """Yield what the palette offers: to turn notifications on and off."""
        from textual.app import SystemCommand  # heavy: settings know the forms of notifications

        for name, is_on, toggle in (
            ("Bell", self.rings, self.toggle_bell),
            ("Desktop notification", self.is_on_desktop, self.toggle_desktop),
        ):
            what = "turn off" if is_on else "turn on"
            yield SystemCommand(f"{name} at critical findings: {what}", "until the app ends", toggle)

    def due(self, cluster: Cluster, now: float, muted: Collection[FindingKey] = ()) -> str:
        """Return the codes to write now; empty if nothing is due."""
        if cluster.findings.checked_at != self._checked_at:
            self._checked_at = cluster.findings.checked_at
            for alert in self._book.changes(cluster, now):
                self._add(alert, is_muted=alert.finding.key in muted)
        if not self._pending or (self._last is not None and 0 <= now - self._last < EVERY):
            return ""
        alerts, self._pending = self._pending, []
        if not (self.rings or self.is_on_desktop):
            return ""
        self._last = now
        codes = BELL if self.rings and any(each.event == STARTS for each in alerts) else ""
        if self.is_on_desktop:
            more = f" (and {len(alerts) - 1} more)" if len(alerts) > 1 else ""
            codes += self._notification(alerts[0].title, more)
        return codes

    def _add(self, alert: Alert, *, is_muted: bool) -> None:
        """Queue an alert. One whose start is still queued is not notified at all once it has ended."""
        started = [each for each in self._pending if each.finding.key == alert.finding.key]
        if is_muted or (alert.event != STARTS and started):
            self._pending = [each for each in self._pending if each not in started]
        else:
            self._pending.append(alert)

    def _notification(self, title: str, more: str) -> str:
        words = printable(title)[: MAX_CHARS - len(more)] + more
        if self._form == OSC777:
            code = f"\x1b]777;notify;jaxtop;{words.replace(';', ',')}\a"
        else:
            code = f"\x1b]9;{words}\a"
        return _through_multiplexer(code, self._environ)


def _usual_form(environ: Mapping[str, str]) -> str:
    return OSC777 if environ.get("TERM", "").startswith(_TAKE_777) or "VTE_VERSION" in environ else OSC9


def _through_multiplexer(code: str, environ: Mapping[str, str]) -> str:
    """Return a code as tmux and screen pass it on to the terminal around them. A bell needs nothing."""
    if "TMUX" in environ:
        return "\x1bPtmux;" + code.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    return f"\x1bP{code}\x1b\\" if "STY" in environ else code
