"""The collectives of the whole cluster: their cost, their mesh axes, and the late participants."""

from jaxtop.model.collectives.doubts import Doubts, doubts
from jaxtop.model.collectives.sums import (
    AxisTraffic,
    LateArrivals,
    StepShare,
    axis_traffic,
    lateness_of_hosts,
    program_waits,
    step_shares,
    waits,
)
from jaxtop.model.collectives.views import CollectiveView, collectives
from jaxtop.model.collectives.waits import Straggler

__all__ = [
    "AxisTraffic", "CollectiveView", "Doubts", "LateArrivals", "StepShare", "Straggler", "axis_traffic",
    "collectives", "doubts", "lateness_of_hosts", "program_waits", "step_shares", "waits",
]  # fmt: skip
