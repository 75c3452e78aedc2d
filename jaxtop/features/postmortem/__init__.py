"""Post-mortem: what processes were like when they failed, from their recordings."""

from jaxtop.base.feature import Command, Feature

FEATURE = Feature(
    "postmortem",
    commands={
        "postmortem": Command(
            "say what processes were like when they failed, from their recordings",
            "jaxtop.features.postmortem.command",
        ),
    },
)
