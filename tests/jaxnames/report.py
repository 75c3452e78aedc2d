"""Which names are missing in which versions, and what the agent does without them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

NOTHING = "nothing is stated"


@dataclass
class Lack:
    """A name that some versions do not have."""

    name: str
    without: str
    places: list[str] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)

    @property
    def words(self):
        places = f"{self.places[0]}{f' and {len(self.places) - 1} more' if len(self.places) > 1 else ''}"
        return f"{self.name}: not in {', '.join(self.versions)}; {self.without or NOTHING} ({places})"


class Report:
    """The look-ups of the agent, held against several versions."""

    def __init__(self, uses):
        self.uses, self.lacks, self.lines = uses, {}, []

    def add(self, version, sources):
        """Look for all names in one version."""
        evidence = Counter()
        for use in self.uses:
            missing = sources.missing(use)
            if missing:
                lack = self.lacks.setdefault((missing, use.without), Lack(missing, use.without))
                lack.places += [use.place] if use.place not in lack.places else []
                lack.versions += [version] if version not in lack.versions else []
            elif missing is not None:
                evidence[sources.evidence(use)] += 1
        self.lines.append(
            f"JAX {version}: of {len(self.uses)} look-ups {evidence['source']} are in its sources, "
            f"{evidence['library']} in its libraries; {evidence['']} are of other types"
        )

    @property
    def unstated(self):
        return [lack for lack in self.lacks.values() if not lack.without]

    @property
    def words(self):
        return "\n".join(
            [*self.lines, *(lack.words for lack in sorted(self.lacks.values(), key=lambda one: one.name))]
        )
