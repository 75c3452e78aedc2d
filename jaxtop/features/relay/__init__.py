"""Relays: they collect frames, and viewers elsewhere show them. A command or an address connects the two."""

from jaxtop.base.feature import Command, Feature

FEATURE = Feature(
    "relay",
    commands={
        "relay": Command(
            "join many agents behind one address, or pass their frames to one viewer elsewhere",
            "jaxtop.features.relay.command",
        ),
    },
    hooks={
        "relays": "jaxtop.features.relay.dialled:Relays",
        "open_through": "jaxtop.features.relay.near:open_through",
    },
)
