"""jaxtop: a terminal monitor for whole JAX runs.

In a training script: `from jaxtop import agent; agent.start()`, `jaxtop.plan.best_devices()`. In a notebook
also: `jaxtop.live()`.
"""

from __future__ import annotations

from jaxtop._version import __version__

TYPE_CHECKING = False  # as in `typing`, which takes half as long to import as the rest of a command

if TYPE_CHECKING:
    import jaxtop_agent as agent
    from jaxtop import plan
    from jaxtop.features.notebook.live import live

__all__ = ["__version__", "agent", "live", "plan"]


def __getattr__(name: str) -> object:
    # Lazy: commands do not need the agent, which is a separate package, and scripts no feature.
    if name == "agent":
        import jaxtop_agent

        return jaxtop_agent
    if name in __all__:  # Python also asks here for each module that it is about to import
        from jaxtop.base.feature import features, load

        for each in features():
            if name in each.attributes:
                return load(each.attributes[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
