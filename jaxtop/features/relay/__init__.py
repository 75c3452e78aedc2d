"""Relays: they collect frames, and viewers elsewhere show them. A command or an address connects the two.

What is where, in the order in which to read it:

- command.py: `jaxtop relay`
- stream.py: the messages between a relay and a viewer
- relay_end.py: the relay end, which follows the agents and passes their frames on
- viewer_end.py: the viewer end, which starts the relay end and yields its frames
- process.py: the command that leads to the relay end
- conversation.py: what the viewer end has received, asked and lost
- outlet.py: one source, and the feeds of all viewers
- feed.py: what one viewer is sent
- agent_frames.py: the last frames of all agents
- relay_listener.py: a relay at an address
- relay_connections.py: the viewer's side of a relay at an address
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
        "relays": "jaxtop.features.relay.relay_connections:DialledRelays",
        "open_through": "jaxtop.features.relay.viewer_end:open_through",
    },
)
