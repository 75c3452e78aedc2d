"""The collectives of the whole cluster: what they cost, on which axis of which mesh, and who is late."""

from jaxtop.cluster.collectives.views import CollectiveView, KnownCollectives, Straggler, collectives

__all__ = ["CollectiveView", "KnownCollectives", "Straggler", "collectives"]
