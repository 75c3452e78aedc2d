"""The programs of the plan bench: `python -m tests.plans.programs.experts --mesh data=4,expert=2`."""
