"""Relays: they collect frames, and viewers elsewhere show them. A command or an address connects the two.

What is where, in the order in which to read it:

- command.py: `jaxtop relay`
- stream.py: the messages between a relay and a viewer
- far.py: the far half, which follows the agents and passes their frames on
- near.py: the near half, which starts the far half and yields its frames
- process.py: the command that leads to the far half
- conversation.py: what the near side has received, asked and lost
- outlet.py: one source, and the feeds of all viewers
- feed.py: what one viewer is sent
- latest.py: the last frames of all agents
- listening.py: a relay at an address
- dialled.py: the viewer's side of a relay at an address
"""

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
        "relays": "jaxtop.features.relay.dialled:DialledRelays",
        "open_through": "jaxtop.features.relay.near:open_through",
    },
)
