"""The policy for windows: automatic, on request, or off."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaxtop_agent.jaxprivate import Profiler

SAMPLED, ON_REQUEST, OFF = "sampled", "on request", "off"


def why_not_sampled(policy: str, platform: str, profiler: Profiler) -> str | None:
    """Return why windows are taken only on request, as the source's state; None if they are automatic."""
    if policy != ON_REQUEST:
        reason = _reason(policy, platform, profiler)
        return None if reason is None else f"{ON_REQUEST}: {reason}"
    return ON_REQUEST


def _reason(policy: str, platform: str, profiler: Profiler) -> str | None:
    if profiler.is_noisy:
        return "before JAX 0.8 each window prints two lines"
    if profiler.has_server():
        return "this script has a profiler server"
    if policy == SAMPLED:
        return None
    if platform in {"gpu", "cuda", "rocm"}:
        return "profiling has crashed programs on GPUs; collectives='sampled' overrides"
    if platform not in {"cpu", "tpu"}:
        return f"untried on {platform}"
    return None
