"""The palette finds hosts, devices, arrays and programs by name, and opens their row."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from textual.command import Hit, Provider

from jaxtop.base import units
from jaxtop.tui.core import text
from jaxtop.tui.core.moment import Selection
from jaxtop.tui.screens.base import View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.command import Hits
    from textual.message import Message

    from jaxtop.tui.core.moment import Moment

# The most places that are listed for what was typed.
MOST_LISTED = 40


class Destination(NamedTuple):
    """A name that can be searched, what it stands for, and the message that opens it."""

    name: str
    what: str
    opens: View.Drilled


class _App(Protocol):
    @property
    def moment(self) -> Moment: ...
    def post_message(self, message: Message) -> bool: ...


def places(moment: Moment) -> Iterator[Destination]:
    """Yield everything that has a name and a row."""
    for view in moment.host_views:
        opens = View.Drilled(Selection(view.host.agent), "hosts")
        yield Destination(moment.label(view.host), view.state.value, opens)
    for program in moment.program_views:
        selection = Selection(program.agents[0] if program.agents else None)
        opens = View.Drilled(selection, "programs", row=program.program.name)
        yield Destination(f"program {program.function}", program.program.name, opens)
    for array in moment.array_views:
        if array.name:
            opens = View.Drilled(Selection(), "arrays", row=array.name)
            yield Destination(
                f"array {array.name}", f"{units.size(array.bytes_per_device)} per device", opens
            )
    for device in moment.device_views:
        opens = View.Drilled(Selection(*device.key), "devices")
        yield Destination(f"{moment.label_of(device)} on {device.hostname}", device.kind, opens)


class Destinations(Provider):
    """Searches the places; they are not listed before something is typed, because there may be thousands."""

    async def search(self, query: str) -> Hits:
        matcher, app = self.matcher(query), cast("_App", self.app)
        words, listed = query.lower().split(), 0
        for place in places(app.moment):
            name = place.name.lower()
            if not all(word in name for word in words):
                continue
            score = max(matcher.match(place.name), 0.5)
            shown = text.printable(place.name)
            yield Hit(score, shown, partial(app.post_message, place.opens), help=text.printable(place.what))
            listed += 1
            if listed == MOST_LISTED:
                return
