"""The palette finds hosts, devices, arrays and programs by name and opens their row, and plots of figures."""

from __future__ import annotations

from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from rich.text import Text
from textual.command import DiscoveryHit, Hit, Provider
from textual.markup import escape

from jaxtop.base import units
from jaxtop.tui.columns.figures import ReportedNames
from jaxtop.tui.core import text
from jaxtop.tui.core.moment import Selection
from jaxtop.tui.draw.plot_contents import choices
from jaxtop.tui.screens.base import ScreenPane

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from textual.command import Hits

    from jaxtop.tui.core.moment import Moment

# The most places that are listed for what was typed.
MAX_LISTED = 40


class Destination(NamedTuple):
    """A name that can be searched, what it stands for, and the message that opens it."""

    name: str
    what: str
    opens: ScreenPane.Drilled


class _HasSelection(Protocol):
    selection: Selection


class _App(Protocol):
    navigation: _HasSelection

    @property
    def moment(self) -> Moment: ...


def places(moment: Moment) -> Iterator[Destination]:
    """Yield everything that has a name and a row."""
    for view in moment.host_views:
        opens = ScreenPane.Drilled(Selection(view.host.agent), "hosts")
        yield Destination(moment.label(view.host), view.state.value, opens)
    for program in moment.program_views:
        selection = Selection(program.agents[0] if program.agents else None)
        opens = ScreenPane.Drilled(selection, "programs", row=program.program.name)
        yield Destination(f"program {program.function}", program.program.name, opens)
    for array in moment.array_views:
        if array.name:
            opens = ScreenPane.Drilled(Selection(), "arrays", row=array.name)
            yield Destination(
                f"array {array.name}", f"{units.size(array.bytes_per_device)} per device", opens
            )
    for device in moment.device_views:
        opens = ScreenPane.Drilled(Selection(*device.key), "devices")
        yield Destination(f"{moment.label_of(device)} on {device.hostname}", device.kind, opens)


def plots(moment: Moment, selection: Selection) -> Iterator[Destination]:
    """Yield the figures that the plot can show, of the selected host or device."""
    reported = ReportedNames()
    reported.see(moment)
    for figure in choices(reported.names, reported.scalars):
        opens = ScreenPane.Drilled(selection, "plot", row=figure.name)
        yield Destination(f"plot {figure.title}", figure.help, opens)


class Plots(Provider):
    """Lists and searches the figures that the plot can show."""

    async def discover(self) -> Hits:
        for each in _plots(self):
            yield DiscoveryHit(_shown(each), partial(self.app.post_message, each.opens), help=_help(each))

    async def search(self, query: str) -> Hits:
        for hit in _hits(_plots(self), query, self):
            yield hit


class Destinations(Provider):
    """Searches all of them; they are not listed before something is typed: there may be thousands."""

    async def search(self, query: str) -> Hits:
        among = chain(places(cast("_App", self.app).moment), _plots(self))
        for hit in _hits(among, query, self):
            yield hit


def _plots(provider: Provider) -> Iterator[Destination]:
    app = cast("_App", provider.app)
    return plots(app.moment, app.navigation.selection)


def _hits(among: Iterable[Destination], query: str, provider: Provider) -> Iterator[Hit]:
    """Yield those whose name has all words of the query."""
    matcher, app = provider.matcher(query), provider.app
    words = query.lower().split()
    found = (place for place in among if all(word in place.name.lower() for word in words))
    for place in islice(found, MAX_LISTED):
        score = max(matcher.match(place.name), 0.5)
        yield Hit(score, _shown(place), partial(app.post_message, place.opens), help=_help(place))


def _shown(place: Destination) -> Text:
    """Return its name as a text without markup: names are those of a run, and may look like tags."""
    return Text(text.printable(place.name))


def _help(place: Destination) -> str:
    return escape(text.printable(place.what))
