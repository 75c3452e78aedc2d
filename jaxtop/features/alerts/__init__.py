"""Alerts: follow a run, and run a command or post a message when a finding begins or ends."""

from jaxtop.base.feature import Command, Feature

FEATURE = Feature(
    "alerts",
    commands={
        "watch": Command(
            "follow a run, and run a command or post a message when something is wrong",
            "jaxtop.features.alerts.command",
        ),
    },
)
