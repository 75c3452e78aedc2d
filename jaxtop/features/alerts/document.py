"""Alerts as the JSON of a command or a webhook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from jaxtop import __version__
from jaxtop.base.times import timestamp
from jaxtop.export.findings import as_value
from jaxtop.model import Finding, Severity
from jaxtop.model.findings.alerts import STARTS, Alert

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = 1
# Discord refuses longer messages.
MAX_MESSAGE_CHARS = 1900


def sample_alert(at: float) -> Alert:
    """Return an alert that tries the way to a person."""
    text = "this is a test of jaxtop watch, nothing is wrong"
    return Alert(
        STARTS, at, "test", Finding(Severity.CRITICAL, 1.0, text, rule="stalled", run="test", since=at)
    )


def to_plain(alert: Alert) -> dict[str, Any]:
    """Return what commands and webhooks receive; docs/checking.md describes it."""
    return {
        "schema": SCHEMA,
        "jaxtop": __version__,
        "event": alert.event,
        "at": timestamp(alert.at),
        "run": {"id": alert.finding.run, "name": alert.run_name},
        "title": alert.title,
        "finding": as_value(alert.finding, alert.at),
    }


def _to_slack(alert: Alert) -> dict[str, Any]:
    text = "\n".join(alert.lines)
    # Slack reads mentions and links in angle brackets.
    return {"text": text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}


def _to_discord(alert: Alert) -> dict[str, Any]:
    return {"content": "\n".join(alert.lines)[:MAX_MESSAGE_CHARS], "allowed_mentions": {"parse": []}}


FORMS: dict[str, Callable[[Alert], dict[str, Any]]] = {
    "plain": to_plain,
    "slack": _to_slack,
    "discord": _to_discord,
}


def body(alert: Alert, form: str) -> bytes:
    return msgspec.json.encode(FORMS[form](alert))
