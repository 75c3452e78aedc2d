"""One host at a moment, as columns and filters read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jaxtop.base import units
from jaxtop.model import FIGURES, launch_rate, pace_of, scaled
from jaxtop.model.host import longest_compile
from jaxtop.model.steps.views import past_of, step_in

if TYPE_CHECKING:
    from jaxtop.model import Figure, Host, HostView, State
    from jaxtop.model.steps.views import StepView
    from jaxtop.tui.core.moment import Moment


@dataclass(slots=True)
class HostRow:
    """One host at a moment."""

    view: HostView
    moment: Moment
    # The longest median step of the hosts shown, if it is known.
    longest_step: float | None = None

    @property
    def host(self) -> Host:
        return self.view.host

    @property
    def state(self) -> State:
        return self.view.state

    @property
    def run(self) -> str:
        if self.host.run is None and self.host.run_name is None:
            return units.NA
        return self.moment.run_names[self.moment.run_of(self.host)]

    @property
    def role(self) -> str | None:
        """What its run is for, with a tilde where that is a guess; None if it is unknown."""
        found = self.moment.roles.get(self.moment.run_of(self.host))
        return None if found is None else str(found)

    @property
    def place(self) -> tuple[str, int] | None:
        """The run and the process index, which sort processes of all runs; None if the index is unknown."""
        index = self.host.process_index
        return None if index is None else (self.run, index)

    @property
    def current(self) -> Host:
        """The host with only its current figures."""
        return self.view.current

    @property
    def device_count(self) -> int | None:
        return len(self.host.hello.devices) if self.host.hello else None

    @property
    def used_bytes(self) -> int | None:
        """The memory used on all its devices together; None if it is unknown for any of them."""
        column = self.current.pulse.devices.used_bytes or (None,)
        known = [used for used in column if used is not None]
        return sum(known) if len(known) == len(column) else None

    @property
    def launches(self) -> float | None:
        return launch_rate(self.moment.cluster, self.current)

    @property
    def rhythm(self) -> StepView | None:
        """The step that it repeats; None if it is unknown or no longer current."""
        return step_in(self.moment.cluster, self.current)

    def derived(self, figure: Figure) -> float | None:
        """Return a figure of its step or its script; None if it is unknown or no longer current."""
        if figure.of_host is not None:
            return figure.of_host(self.view.host if figure.outlasts else self.current)
        return None if self.rhythm is None else figure.of_step(self.rhythm)

    @property
    def steps(self) -> float | None:
        return pace_of(self.current)

    @property
    def step(self) -> int | None:
        """The last step that the script reported, also of a process that has exited."""
        last = self.view.host
        reported = last.pulse.reported
        return None if reported is None else reported.index

    @property
    def still(self) -> float | None:
        """The seconds since its last step ended, if that is far longer than usual; else None."""
        return past_of(self.current)

    @property
    def compiling(self) -> tuple[float, str] | None:
        """The longest running compilation: its seconds and its function; None if nothing is compiled."""
        return longest_compile(self.current.pulse)

    @property
    def cores(self) -> float | None:
        return FIGURES["cores"].read(self.current.pulse, 0)

    @property
    def agent_cpu(self) -> float | None:
        return scaled(self.current.pulse.cost.cpu_ppm, 10_000)

    @property
    def age(self) -> float | None:
        return None if self.host.heard_at is None else self.moment.now - self.host.heard_at

    @property
    def jax(self) -> str | None:
        return self.host.hello.jax if self.host.hello else None
