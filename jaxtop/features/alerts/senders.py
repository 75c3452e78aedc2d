"""Deliver alerts to commands and webhooks, each on a thread of its own: one that hangs delays nobody."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
import time
from collections import deque
from contextlib import suppress
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from jaxtop import __version__
from jaxtop.base import debuglog
from jaxtop.base.names import reason
from jaxtop.cli.errors import UserError
from jaxtop.cli.text.words import note
from jaxtop.features.alerts.document import body

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtop.model.findings.alerts import Alert

# Seconds between attempts to deliver an alert; there is one more attempt than there are pauses.
DELAYS = (1.0, 2.0, 4.0, 8.0, 16.0)
LONGEST_DELAY = 60.0
# The most alerts that are sent to a receiver within `ALERTS_PERIOD`.
MAX_ALERTS = 10
# The seconds in which a receiver gets at most `MAX_ALERTS`.
ALERTS_PERIOD = 60.0
# The most alerts that wait for their turn.
MAX_WAITING = 100
# The seconds that a receiver has for its answer.
POST_SECONDS = 10.0
# The seconds that a command has.
EXEC_SECONDS = 60.0


class Undelivered(Exception):
    """An alert was not delivered; the text is the reason. `after` is when to try again; None: never."""

    def __init__(self, why: str, after: float | None = 0.0) -> None:
        super().__init__(why)
        self.after = after


class Sender:
    """A thread that delivers alerts in order, again where that fails, and not too many at a time."""

    def __init__(
        self,
        name: str,
        send: Callable[[Alert], None],
        delays: Sequence[float] = DELAYS,
        most: int = MAX_ALERTS,
        within: float = ALERTS_PERIOD,
    ) -> None:
        self.name = name
        self._send, self._delays, self._within = send, delays, within
        self._waiting: queue.Queue[Alert | None] = queue.Queue(MAX_WAITING)
        self._sent: deque[float] = deque(maxlen=most)
        self._lost = 0
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name=f"jaxtop {name}", daemon=True)
        self._thread.start()

    def put(self, alert: Alert) -> None:
        """Queue an alert; it never waits."""
        try:
            self._waiting.put_nowait(alert)
        except queue.Full:
            self._lost += 1

    def finish(self, seconds: float) -> int:
        """Wait this long for queued alerts; report and return how many were not delivered."""
        with suppress(queue.Full):
            self._waiting.put_nowait(None)
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._is_over = True
            self._lost += 1  # it is being delivered
            with suppress(queue.Empty):
                while True:
                    self._lost += self._waiting.get_nowait() is not None
            self._waiting.put_nowait(None)
        if self._lost:
            self._report(f"{self._lost} {'alert was' if self._lost == 1 else 'alerts were'} not delivered")
        return self._lost

    def _run(self) -> None:
        while (alert := self._waiting.get()) is not None:
            if len(self._sent) == self._sent.maxlen:
                time.sleep(max(0.0, self._sent[0] + self._within - time.monotonic()))
            self._sent.append(time.monotonic())
            self._deliver(alert)

    def _deliver(self, alert: Alert) -> None:
        for delay in (*self._delays, None):
            try:
                self._send(alert)
            except Undelivered as error:
                if self._is_over:
                    return
                if delay is None or error.after is None:
                    self._lost += 1
                    self._report(f"{error}; given up")
                    return
                pause = min(max(delay, error.after), LONGEST_DELAY)
                self._report(f"{error}; next attempt in {pause:g} s")
                time.sleep(pause)
            except Exception as error:  # noqa: BLE001 - a fault here must not end the thread
                debuglog.warning("watch", "an alert failed", self.name, error)
                self._lost += 1
                self._report(reason(error))
                return
            else:
                return

    def _report(self, what: str) -> None:
        note(f"{self.name}: {what}")


class _NoRedirect(HTTPRedirectHandler):
    """A redirected POST would become a GET without its body."""

    def redirect_request(self, *_: Any) -> None:
        return None


def webhook(address: str, form: str, delays: Sequence[float] = DELAYS) -> Sender:
    """Return a sender that posts alerts to this address."""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError("--webhook takes an address that begins with https:// or http://")
    opener = build_opener(_NoRedirect)

    def send(alert: Alert) -> None:
        headers = {"Content-Type": "application/json", "User-Agent": f"jaxtop/{__version__}"}
        try:
            request = Request(address, body(alert, form), headers, method="POST")  # noqa: S310 - checked above
            with opener.open(request, timeout=POST_SECONDS) as answer:
                answer.read(1)
        except HTTPError as error:
            error.close()
            _refused(error)
        except (OSError, HTTPException) as error:
            why = error.reason if isinstance(error, URLError) else error
            raise Undelivered(reason(why) if isinstance(why, Exception) else str(why)) from None

    return Sender(f"webhook {parts.hostname}", send, delays)  # the rest of the address is a password


def _refused(error: HTTPError) -> NoReturn:
    """Raise `Undelivered` for an answer that is not a success."""
    is_temporary = error.code >= 500 or error.code in (408, 425, 429)
    wanted = error.headers.get("Retry-After") or "0"
    after = float(wanted) if wanted.isdecimal() else 0.0
    raise Undelivered(f"HTTP status {error.code}", after if is_temporary else None)


def command(line: str) -> Sender:
    """Return a sender that runs a shell command with each alert as JSON on its standard input."""

    def send(alert: Alert) -> None:
        process = subprocess.Popen(  # noqa: S602 - the user's own command line
            line, shell=True, stdin=subprocess.PIPE, env=_environment(alert), start_new_session=True
        )
        try:
            process.communicate(body(alert, "plain"), timeout=EXEC_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise Undelivered(f"it took longer than {EXEC_SECONDS:g} s and was killed", None) from None
        if process.returncode:
            raise Undelivered(f"exit status {process.returncode}", None)

    return Sender("command", send)


def _environment(alert: Alert) -> dict[str, str]:
    given = {
        "JAXTOP_ALERT": alert.event,
        "JAXTOP_ALERT_RULE": alert.finding.rule,
        "JAXTOP_ALERT_SEVERITY": alert.finding.severity.value,
        "JAXTOP_ALERT_RUN": alert.run_name,
        "JAXTOP_ALERT_TITLE": alert.title,
    }
    # A variable cannot contain a null character.
    return {**os.environ, **{name: value.replace("\0", "") for name, value in given.items()}}
