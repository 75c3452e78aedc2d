"""Runs that belong together, because one process has started the others, and what each of them is for."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.hosts import Run, runs
from jaxtop.wire import MAIN_ROLE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtop.model.state import ClusterState
    from jaxtop.wire import Hello


# The roles of processes that serve requests.
SERVING = frozenset({"engine", "server", "serving", "inference"})


class Role(NamedTuple):
    """What a run is for, and whether that is a guess."""

    name: str
    is_guess: bool = False

    @property
    def serves(self) -> bool:
        """Whether such a process serves requests."""
        return self.name.lower() in SERVING

    def __str__(self) -> str:
        return f"~{self.name}" if self.is_guess else self.name


@dataclass(frozen=True)
class Group:
    """The runs of a family that have one role. Each has steps, a mesh and verdicts of its own."""

    family: str
    role: Role
    runs: tuple[Run, ...]

    @property
    def labels(self) -> dict[str, str]:
        """The names of its runs among those of the family, by run id: "actor 1".

        The script's own numbers are used if each has one, else the order in which they were started.
        """
        name = self.role.name
        if len(self.runs) == 1:
            return {self.runs[0].id: name}
        numbers = [_number(run) for run in self.runs]
        are_given = None not in numbers and len(set(numbers)) == len(numbers)
        return {
            run.id: f"{name} {numbers[place] if are_given else place}" for place, run in enumerate(self.runs)
        }

    def __str__(self) -> str:
        return str(self.role) if len(self.runs) == 1 else f"{len(self.runs)} × {self.role}"


def family_groups(cluster: ClusterState, now: float) -> list[Group]:
    """Return the groups of each family, the first process's group first; none where nothing has a role."""
    return cluster.derived.get("groups", (cluster.changes, now), lambda: _groups(runs(cluster, now)))


def names_of_runs(cluster: ClusterState, now: float) -> dict[str, str]:
    """Return the display name of each run, by run id: with what it is for, or with its id, if needed."""
    return cluster.derived.get("names of runs", (cluster.changes, now), lambda: _names(cluster, now))


def _names(cluster: ClusterState, now: float) -> dict[str, str]:
    all_runs = runs(cluster, now)
    found = {run.id: run.name or run.id for run in all_runs}
    for group in family_groups(cluster, now):
        for run in group.runs:
            label = group.labels[run.id]
            is_said_twice = run.name in (None, group.role.name)
            found[run.id] = label if is_said_twice else f"{run.name} {label}"
    often = Counter(found.values())
    return {run: name if often[name] == 1 or name == run else f"{name} {run}" for run, name in found.items()}


def main_run(cluster: ClusterState, now: float) -> Run | None:
    """Return the run whose steps stand for all: with most processes, then what started the others."""
    found = runs(cluster, now)
    live = [run for run in found if not run.has_ended] or found
    return max(live, key=lambda run: (len(run.hosts), not _is_child(run), -_started(run)), default=None)


def roles_of_runs(cluster: ClusterState, now: float) -> dict[str, Role]:
    """Return what each run is for, by run id; lone runs without a role are left out."""
    return {run.id: group.role for group in family_groups(cluster, now) for run in group.runs}


def family_of(run: Run) -> str | None:
    """Return the family of a run: of several, because its hosts have one each, the first by name."""
    return min((hello.family for hello in _hellos(run) if hello.family), default=None)


def _groups(all_runs: Iterable[Run]) -> list[Group]:
    families: dict[str, list[Run]] = defaultdict(list)
    for run, family in _joined(all_runs):
        families[family].append(run)
    found = []
    for family, members in families.items():
        by_role: dict[Role, list[Run]] = defaultdict(list)
        for run in sorted(members, key=lambda run: (_is_child(run), _started(run))):
            if (role := _role(run, is_alone=len(members) == 1)) is not None:
                by_role[role].append(run)
        found += [Group(family, role, tuple(those)) for role, those in by_role.items()]
    return found


def _joined(all_runs: Iterable[Run]) -> list[tuple[Run, str]]:
    """Return the runs with their family. Families that share a run are one, named as the first of them."""
    heads: dict[str, str] = {}

    def head(family: str) -> str:
        while (above := heads.get(family, family)) != family:
            family = above
        return family

    placed = []
    for run in all_runs:
        known = sorted({head(hello.family) for hello in _hellos(run) if hello.family})
        heads.update(dict.fromkeys(known[1:], known[0]) if known else {})
        placed += [(run, known[0])] if known else []
    return [(run, head(family)) for run, family in placed]


def _role(run: Run, *, is_alone: bool) -> Role | None:
    roles = [Role(hello.role, hello.is_role_guessed) for hello in _hellos(run) if hello.role]
    said = [role for role in roles if not role.is_guess]
    if roles:
        return (said or roles)[0]
    return None if is_alone else Role(MAIN_ROLE, is_guess=True)


def _number(run: Run) -> int | None:
    return next((hello.role_number for hello in _hellos(run)), None)


def _hellos(run: Run) -> list[Hello]:
    return [view.host.hello for view in run.hosts if view.host.hello is not None]


def _is_child(run: Run) -> bool:
    return any(hello.parent_pid is not None for hello in _hellos(run))


def _started(run: Run) -> int:
    return min((hello.started_ms for hello in _hellos(run)), default=0)
