"""Plans: what the run would need and how fast it would be on another mesh or with other shardings.

What is where, in the order in which to read it:

- command.py: `jaxtop plan`
- model/: what a plan consists of, and how it is made
- report.py: plans as printed text
- document.py: plans as JSON
- screen.py: the plan screen
- columns.py: its table
- pane.py: the detail of a plan as text
- frontier.py: the candidates by memory and time
- compile.py: `jaxtop plan --compile`
- compiler.py: the process that compiles candidates
- messages.py: what that process is asked, and what it answers
- demo_check.py: `jaxtop plan --check`: predicted times next to measured ones
"""

from jaxtop.base.feature import Command, Feature, ScreenEntry

FEATURE = Feature(
    "planning",
    commands={
        "plan": Command(
            "say what the run would need, and how fast it would be, on other meshes",
            "jaxtop.features.planning.command",
            failed=2,
        ),
    },
    screens=(
        ScreenEntry(
            "W",
            "Plan",
            "jaxtop.features.planning.screen:PlanScreen",
            after="Plot",
            shows="what the run would need, and how fast it would be, on other meshes",
            page="planner.md#in-the-app",
        ),
    ),
)
