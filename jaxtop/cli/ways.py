"""Ways into a cluster: each shorthand of a target is the command that runs jaxtop on the other side."""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

from jaxtop.cli.errors import UserError

# SSH notices a cut connection after 15 s. `-T`: no terminal, which would change bytes.
_SSH = ("ssh", "-T", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3")
# Neither the user nor the host may begin like an option. Only an IPv6 address may be in brackets.
_LOGIN = re.compile(
    r"((?:[^@\s-][^@\s]*@)?)(?:\[([0-9a-fA-F:.]+(?:%\w+)?)\]|([^:@\s[\]-][^:@\s[\]]*))(?::(\d{1,5}))?"
)
# Looks for the pod at each connection: it may have another name after a restart. What follows is run in it.
_FIRST_POD = """
command -v kubectl >/dev/null || { echo "kubectl is not installed" >&2; exit 1; }
namespace=$1 label=$2; shift 2
running="--field-selector status.phase=Running"
pods=$(kubectl get pods -n "$namespace" -l "$label" $running -o name </dev/null) || exit
[ "$pods" ] || { echo "no running pod in $namespace has the label $label" >&2; exit 1; }
exec kubectl exec -i -n "$namespace" "${pods%%
*}" -- "$@"
"""
_SHORTHANDS = ("ssh://", "slurm://", "k8s://")


class Way(NamedTuple):
    """The command that leads to the other side, and the targets there; its name, if it is not the command."""

    command: tuple[str, ...]
    targets: tuple[str, ...]
    name: str = ""


def find(via: str | None, names: list[str]) -> Way | None:
    """Return the way that `--via` or a shorthand among the targets describes; None without either."""
    shorthands = [name for name in names if name.startswith(_SHORTHANDS)]
    if via is not None:
        if shorthands:
            raise UserError(f"--via and {shorthands[0]} both name a way: give one of them")
        return Way(_words(via), tuple(names))
    if not shorthands:
        return None
    if len(names) > 1:
        raise UserError(f"{shorthands[0]} must be the only target: one way leads to one run")
    kind, _, rest = names[0].partition("://")
    return {"ssh": _ssh, "slurm": _slurm, "k8s": _kubernetes}[kind](rest)


def _words(via: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(via))
    except ValueError as error:
        raise UserError(f"--via {via!r} is not a command: {error}") from None
    if not words:
        raise UserError("--via needs a command, such as 'ssh login01'")
    return words


def _ssh(rest: str) -> Way:
    """Return the way of `[USER@]HOST[:PORT][/TARGET]`."""
    login, _, target = rest.partition("/")
    found = _LOGIN.fullmatch(login)
    if found is None:
        raise UserError(f"ssh://{rest} is not ssh://[USER@]HOST[:PORT][/TARGET]")
    user, address, host, port = found.groups()
    options = ("-p", port) if port else ()
    return Way((*_SSH, *options, "--", user + (address or host)), (target,) if target else ())


def _slurm(rest: str) -> Way:
    """Return the way of a job: a step of its own on one of its nodes.

    Without `--unbuffered`, `srun` would hold frames back until it has many.
    """
    if not re.fullmatch(r"\d+(_\d+)?(\+\d+)?", rest):
        raise UserError(f"slurm://{rest} is not slurm://JOBID")
    return Way(
        ("srun", "--jobid", rest, "--overlap", "--nodes=1", "--ntasks=1", "--quiet", "--unbuffered"), ()
    )


def _kubernetes(rest: str) -> Way:
    """Return the way of `NAMESPACE/POD`, or of `NAMESPACE/LABEL=VALUE`: the first running pod with it."""
    namespace, _, pod = rest.partition("/")
    name = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
    if not name.fullmatch(namespace) or not (
        name.fullmatch(pod) or re.fullmatch(r"[\w./-]+=[\w.,=/-]+", pod)
    ):
        raise UserError(f"k8s://{rest} is not k8s://NAMESPACE/POD or k8s://NAMESPACE/LABEL=VALUE")
    if "=" in pod:
        return Way(("sh", "-c", _FIRST_POD, "sh", namespace, pod), (), f"k8s://{rest}")
    return Way(("kubectl", "exec", "-i", "-n", namespace, pod, "--"), ())
