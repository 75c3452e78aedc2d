"""Ledger: what each process spends its time on, added up over hosts, restarts and weeks.

What is where, in the order in which to read it:

- model.py: processes, attempts and jobs: sums by kind, what was lost, and goodput
- collect.py: makes them from a cluster, live or recorded, and from the files of processes
- text.py, document.py, html.py: a job as text, as JSON, and as a page of HTML
- command.py: `jaxtop report`
- page.py, screen.py: the screen
- compare.py: the comparison of two runs: the noise of both, which is slower, in what they differ
- compare_steps.py, compare_facts.py: what is compared of a run: what its steps took, what it consists of
- compare_text.py: a comparison as text and as JSON
- compare_command.py: `jaxtop compare`
"""

from jaxtop.base.feature import Command, Feature, ScreenEntry

FEATURE = Feature(
    "ledger",
    commands={
        "report": Command(
            "say what a run spent its time on, over restarts and checkpoints",
            "jaxtop.features.ledger.command",
        ),
        "compare": Command(
            "say which of two runs is slower, beyond their noise, and in what they differ",
            "jaxtop.features.ledger.compare_command",
            failed=3,
        ),
    },
    screens=(
        ScreenEntry(
            "H",
            "Ledger",
            "jaxtop.features.ledger.screen:LedgerScreen",
            after="Plot",
            shows="what the run has spent its time on since it started, and what was lost",
            page="ledger.md",
        ),
    ),
)
