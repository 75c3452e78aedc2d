"""The agent for a process that was started without it: what the process is, and the ways into it."""

from jaxtop.base.feature import Command, Feature

FEATURE = Feature(
    "inject",
    commands={
        "inject": Command(
            "start the agent in a JAX process that runs already", "jaxtop.features.inject.command"
        ),
    },
    hooks={"doctor_checks": "jaxtop.features.inject.doctor:checks"},
)
