"""Ways into a cluster: each shorthand of a target is the command that runs jaxtop on the other side."""

from __future__ import annotations

import re
import shlex
import subprocess
from typing import NamedTuple

from jaxtop.cli.errors import UserError

# SSH notices a silent cut after 15 s. `-T`: no terminal, which would change bytes.
_SSH = ("ssh", "-T", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3")
# Neither the user nor the host may begin like an option. Only an IPv6 address may be in brackets.
_LOGIN = re.compile(
    r"((?:[^@\s-][^@\s]*@)?)(?:\[([0-9a-fA-F:.]+(?:%\w+)?)\]|([^:@\s[\]-][^:@\s[\]]*))(?::(\d{1,5}))?"
)
_SHORTHANDS = ("ssh://", "slurm://", "k8s://")


class Way(NamedTuple):
    """The command that leads to the other side, and the targets there."""

    command: tuple[str, ...]
    targets: tuple[str, ...]


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

    `srun` would hold back everything behind the last line end, and frames have none.
    """
    if not re.fullmatch(r"\d+(_\d+)?(\+\d+)?", rest):
        raise UserError(f"slurm://{rest} is not slurm://JOBID")
    return Way(
        ("srun", "--jobid", rest, "--overlap", "--nodes=1", "--ntasks=1", "--quiet", "--unbuffered"), ()
    )


def _kubernetes(rest: str) -> Way:
    """Return the way of `NAMESPACE/POD`, or of `NAMESPACE/LABEL=VALUE`: the first pod with this label."""
    namespace, _, pod = rest.partition("/")
    name = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
    if not name.fullmatch(namespace) or not (
        name.fullmatch(pod) or re.fullmatch(r"[\w./-]+=[\w.,=/-]+", pod)
    ):
        raise UserError(f"k8s://{rest} is not k8s://NAMESPACE/POD or k8s://NAMESPACE/LABEL=VALUE")
    pod = _first_pod(namespace, pod) if "=" in pod else pod
    return Way(("kubectl", "exec", "-i", "-n", namespace, pod, "--"), ())


def _first_pod(namespace: str, selector: str) -> str:
    command = [
        *("kubectl", "get", "pods", "-n", namespace, "-l", selector),
        *("--field-selector", "status.phase=Running", "-o", "name"),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"kubectl cannot be run: {getattr(error, 'strerror', None) or error}") from None
    if done.returncode:
        raise UserError(f"kubectl failed: {done.stderr.strip() or done.returncode}")
    pods = done.stdout.split()
    if not pods:
        raise UserError(f"no running pod in {namespace} has the label {selector}")
    return pods[0].removeprefix("pod/")
