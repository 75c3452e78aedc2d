"""The current rates of a device or a collective, compared with those that a probe measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.tui import text
from jaxtop.tui.draw.facts import pairs

if TYPE_CHECKING:
    from rich.text import Text

    from jaxtop.devbench.shown import ProbedDevice
    from jaxtop.tui.draw.ink import Ink


def probed_lines(
    probed: ProbedDevice | None, flops_per_second: float | None, ink: Ink, *, at_least: bool = False
) -> list[Text]:
    """Return the measured rates of a device, and the share of its matrix rate that the step uses."""
    if probed is None:
        return []
    rate, memory = probed.rate("matrix_flops_per_s"), probed.rate("memory_bytes_per_s")
    lines = []
    if rate:
        share = None if flops_per_second is None else text.share(flops_per_second / rate)
        does = [] if share is None else [("does", text.bound(share, at_least=at_least))]
        lines.append(pairs([("probed", f"{text.amount(rate)}flop/s"), *does], ink))
    if memory is not None:
        lines.append(pairs([("probed memory", text.bandwidth(memory))], ink))
    return lines


def of_probed(busbw: int | None, probed: float | None) -> str:
    """Return a live bus bandwidth as a share of the probed one; empty if either is unknown."""
    return "" if busbw is None or not probed else f", {text.share(busbw / probed)} of probed"
