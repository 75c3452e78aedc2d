"""A summary of a run in a cell of a notebook: `jaxtop.live()`."""

from jaxtop.base.feature import Feature

FEATURE = Feature("notebook", attributes={"live": "jaxtop.features.notebook.live:live"})
