"""Hosts as clusters name them: ranges of names, host files, and the variables of job schedulers."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# 10,000 hosts with long names.
MOST_OF_HOSTFILE, MOST_HOSTFILE = 1 << 20, "1 MiB"
MOST_HOSTS = 16_384
_RANGES = re.compile(r"\[([\d,-]+)\]")
# Lists of hosts, by the variable that has one; the others name a file with a host per line.
_LISTS = ("SLURM_JOB_NODELIST", "SLURM_NODELIST", "TPU_WORKER_HOSTNAMES", "LSB_HOSTS")
_FILES = (
    "PBS_NODEFILE",
    "PE_HOSTFILE",
    "LSB_DJOB_HOSTFILE",
    "COBALT_NODEFILE",
    "OMPI_MCA_orte_default_hostfile",
)


class BadHosts(Exception):
    """A list of hosts that cannot be read; the text says why."""


def expand(text: str) -> list[str]:
    """Return the hosts of a list such as `node[01-04,07],login:7410`; IPv6 addresses stay as they are."""
    found = [host for part in _parts(text) for host in _expanded(part)]
    if len(found) > MOST_HOSTS:
        raise BadHosts(f"{text[:60]} names {len(found)} hosts, more than {MOST_HOSTS}")
    return found


def of_file(path: str) -> list[str]:
    """Return the hosts of a file of MPI or Slurm: one list per line; what follows on the line is ignored."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(MOST_OF_HOSTFILE + 1)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise BadHosts(f"the host file {path} cannot be read: {why}") from None
    if len(text) > MOST_OF_HOSTFILE or "\0" in text:
        raise BadHosts(f"{path} is not a host file: it needs one host per line, {MOST_HOSTFILE} at most")
    lines = [
        line.split()[0] for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]
    return list(dict.fromkeys(host for line in lines for host in expand(line)))


def of_environment(environ: Mapping[str, str]) -> tuple[str, list[str]] | None:
    """Return the hosts of the job in which this process runs, with the variable that names them."""
    for name in _LISTS:
        if environ.get(name):
            return name, list(dict.fromkeys(expand(environ[name].replace(" ", ","))))
    for name in _FILES:
        if environ.get(name):
            return name, of_file(environ[name])
    return None


def _parts(text: str) -> Iterator[str]:
    """Yield what commas outside of brackets separate."""
    start = depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    yield text[start:]


def _expanded(part: str) -> Iterator[str]:
    if not part:
        return
    pieces = _RANGES.split(part)  # text and ranges in turns
    choices = [list(_numbers(each, part)) if i % 2 else [each] for i, each in enumerate(pieces)]
    count = 1
    for each in choices:
        count *= len(each)
        if count > MOST_HOSTS:
            raise BadHosts(f"{part[:60]} names more than {MOST_HOSTS} hosts")
    yield from map("".join, product(*choices))


def _numbers(ranges: str, part: str) -> Iterator[str]:
    """Yield the numbers of `01-04,07`, as wide as they are written."""
    for each in ranges.split(","):
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", each)
        if found is None or (found[2] and int(found[2]) < int(found[1])):
            raise BadHosts(f"{part[:60]}: {each or 'an empty range'} is not a range such as 01-04")
        last = int(found[2] or found[1])
        if last - int(found[1]) >= MOST_HOSTS:
            raise BadHosts(f"{part[:60]} names more than {MOST_HOSTS} hosts")
        yield from (f"{number:0{len(found[1])}}" for number in range(int(found[1]), last + 1))
