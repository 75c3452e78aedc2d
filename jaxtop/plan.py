"""The public spelling `jaxtop.plan.best_devices()`; it is part of the feature `probe`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.base.feature import load

if TYPE_CHECKING:
    from jaxtop.features.probe.choosing import best_devices

__all__ = ["best_devices"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load(f"jaxtop.features.probe.choosing:{name}")
