"""The next step of a finding, in the words of the place where it is shown.

Advice marks a key of the app in brackets, such as "its stacks [9]". The app shows the key alone; everywhere
else it stands with the command that opens the app.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from jaxtop.model.findings.rules import RULES_BY_NAME

if TYPE_CHECKING:
    from jaxtop.model.finding import Finding
    from jaxtop.model.findings.rule import Rule

_KEY = re.compile(r" \[(\w)\]")


def advice_in_app(finding: Finding) -> str:
    """Return the next step with the keys to press."""
    return _KEY.sub(r" (key \1)", _advice(finding))


def advice_outside(finding: Finding, opens: str = "") -> str:
    """Return the next step with the command that opens the app on the run, unless `opens` is another one."""
    return _with_command(_advice(finding), opens or command_of(finding.run))


def advice_of_rule(rule: Rule) -> str:
    """Return the advice of a rule, for no run in particular."""
    return _with_command(rule.advice, "jaxtop attach NAME")


def command_of(run: str) -> str:
    """Return the command that opens the app on a run of this name or id."""
    return f"jaxtop attach {shlex.quote(run)}"


def _advice(finding: Finding) -> str:
    return finding.advice or RULES_BY_NAME[finding.rule].advice


def _with_command(advice: str, command: str) -> str:
    return _KEY.sub(lambda key: f" (`{command}`, key {key[1]})", advice)
