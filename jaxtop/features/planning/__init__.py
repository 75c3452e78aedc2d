"""Plans: what the run would need and how fast it would be on another mesh or with other shardings."""

from jaxtop.base.feature import Command, Feature, Screen

FEATURE = Feature(
    "planning",
    commands={
        "plan": Command(
            "say what the run would need, and how fast it would be, on other meshes",
            "jaxtop.features.planning.command",
            failed=2,
        ),
    },
    screens=(Screen("W", "Plan", "jaxtop.features.planning.screen:PlanView", after="Plot"),),
)
