"""The collectives of the whole cluster: their cost, their mesh axes, and the late participants.

Words: a *place* is an entry of a program's device assignment. A *unit* is what may be late: a process, or a
device where the devices of one process meet each other. A *team* is the units that meet in one or more groups
of a collective. A *round* is one execution of a collective within a launch: a loop has several.

What is where:

- joining.py: the reducer, which joins a window with those of other processes and judges what they show;
  the state is `model/windows.py`; matching.py: whether launches of several processes are the same
- layout.py, groups.py, kinds.py: who takes part in each collective, over which axes
- timing.py: the waits in one launch of a collective, and over several
- verdict.py: which unit comes last, and whether it still does; sentences.py: the sentences about it
- present.py: which windows are current; doubts.py: why there may be no verdict
- views.py, sums.py, small_collectives.py: collectives, their totals, those that share a row
- timeline.py, launch_rates.py: the last launches in order of time; how often programs are launched
- nccl_inspector.py: what NCCL Inspector reports
"""

from jaxtop.model.collectives.doubts import Doubts, doubts_about
from jaxtop.model.collectives.sums import (
    AxisTraffic,
    LastArrivals,
    StepShare,
    axis_traffic,
    last_arrivals,
    program_waits,
    step_shares,
    waits_by_device,
)
from jaxtop.model.collectives.views import CollectiveView, collective_views
from jaxtop.model.windows import Straggler

__all__ = [
    "AxisTraffic", "CollectiveView", "Doubts", "LastArrivals", "StepShare", "Straggler", "axis_traffic",
    "collective_views", "doubts_about", "last_arrivals", "program_waits", "step_shares", "waits_by_device",
]  # fmt: skip
