"""`python -m tests.jaxnames [VERSION…]`: check these versions of JAX, else each supported minor one."""

from __future__ import annotations

import sys

from jaxtop.base import tested_versions
from tests.jaxnames import index
from tests.jaxnames.report import Report
from tests.jaxnames.sources import Sources
from tests.jaxnames.uses import uses


def main(versions):
    problems = []
    if not versions:
        versions = index.of_each_minor(index.offered(), tested_versions.LOWEST_JAX)
        if index.numbers(versions[-1])[:2] > tested_versions.HIGHEST_JAX:
            problems.append(
                f"JAX {versions[-1]} is on the index, and jaxtop is tested up to "
                f"{tested_versions.written(tested_versions.HIGHEST_JAX)}: run make test-jax "
                f"JAX={versions[-1]}, then raise HIGHEST_JAX in jaxtop/base/tested_versions.py"
            )
    report = Report(uses())
    for version in versions:
        report.add(version, Sources(*index.wheels(version)))
    print(report.words)
    problems += [f"not stated what the agent does without it: {lack.words}" for lack in report.unstated]
    print("\n".join(problems), end="\n" if problems else "", file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
