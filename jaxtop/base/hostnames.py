"""Hosts as clusters name them: ranges of names, host files, and the variables of job schedulers."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# 10,000 hosts with long names.
MOST_OF_HOSTFILE, MOST_HOSTFILE = 1 << 20, "1 MiB"
MOST_HOSTS = 16_384
_RANGES, _RANGE = re.compile(r"\[([\d,-]+)\]"), re.compile(r"(\d{1,12})(?:-(\d{1,12}))?")
# Lists of hosts, by the variable that has one; the others name a file with a host per line.
_LISTS = ("SLURM_JOB_NODELIST", "SLURM_NODELIST", "TPU_WORKER_HOSTNAMES", "LSB_HOSTS")
_FILES = (
    "PBS_NODEFILE",
    "PE_HOSTFILE",
    "LSB_DJOB_HOSTFILE",
    "COBALT_NODEFILE",
    "OMPI_MCA_orte_default_hostfile",
)
VARIABLES = (*_LISTS, *_FILES)


class BadHosts(Exception):
    """A list of hosts that cannot be read; the text says why."""


def expand(text: str) -> list[str]:
    """Return the hosts of a list such as `node[01-04,07],login:7410`; IPv6 addresses stay as they are."""
    return _hosts([text])


def hosts_in_file(path: str) -> list[str]:
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
    return _hosts(lines)


def hosts_of_job(environ: Mapping[str, str]) -> tuple[str, list[str]] | None:
    """Return the hosts of the job in which this process runs, with the variable that names them."""
    name = next((name for name in VARIABLES if environ.get(name)), None)
    if name is None:
        return None
    value = environ[name]
    try:
        return name, hosts_in_file(value) if name in _FILES else expand(value.replace(" ", ","))
    except BadHosts as error:
        raise BadHosts(f"{name}: {error}") from None


def _hosts(lists: Iterable[str]) -> list[str]:
    """Return the hosts of these lists, each once. They are counted before they are made."""
    found: list[str] = []
    for part in dict.fromkeys(part for text in lists for part in _parts(text) if part):
        pieces = _RANGES.split(part)  # text and ranges in turns
        ranges = [_ranges(each, part) for each in pieces[1::2]]
        count = 1
        for size in (1, *(sum(len(numbers) for numbers, _ in each) for each in ranges)):
            count *= size
            if len(found) + count > MOST_HOSTS:
                raise BadHosts(f"{part[:60]}: more than {MOST_HOSTS} hosts")
        choices = [[text] for text in pieces]
        choices[1::2] = [[f"{n:0{width}}" for numbers, width in each for n in numbers] for each in ranges]
        found += map("".join, product(*choices))
    return list(dict.fromkeys(found))


def _parts(text: str) -> Iterator[str]:
    """Yield what commas outside of brackets separate."""
    start = depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    yield text[start:]


def _ranges(text: str, part: str) -> list[tuple[range, int]]:
    """Return the numbers of `01-04,07`, and how wide they are written."""
    ranges = []
    for each in text.split(","):
        found = _RANGE.fullmatch(each)
        if found is None or (found[2] and int(found[2]) < int(found[1])):
            raise BadHosts(f"{part[:60]}: {each[:60] or 'an empty range'} is not a range such as 01-04")
        ranges.append((range(int(found[1]), int(found[2] or found[1]) + 1), len(found[1])))
    return ranges
