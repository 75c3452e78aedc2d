"""The versions of JAX that pip can have, and their wheels, for whatever Python they are."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import groupby

from tests.support import ROOT

WHEELS = ROOT / "build" / "jaxnames"
PYTHONS = ("3.14", "3.13", "3.12", "3.11")


def numbers(version):
    return tuple(int(each) for each in re.findall(r"\d+", version))


def pip(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "pip", *arguments], capture_output=True, text=True, check=False
    )
    return done.stdout if not done.returncode else None


def offered():
    """Return every released version on the index, oldest first."""
    listed = pip("index", "versions", "jax", "--ignore-requires-python")
    if listed is None:
        raise SystemExit("the versions of JAX cannot be listed: pip reaches no index")
    found = re.findall(r"Available versions: (.*)", listed)[0].split(", ")
    return sorted((each for each in found if re.fullmatch(r"[\d.]+", each)), key=numbers)


def of_each_minor(versions, lowest):
    """Return the lowest supported version, and the last of each minor version from there on."""
    supported = [each for each in versions if numbers(each) >= lowest]
    return list(
        dict.fromkeys(
            [
                *supported[:1],
                *(list(group)[-1] for _, group in groupby(supported, lambda one: numbers(one)[:2])),
            ]
        )
    )


def wheels(version):
    """Return the wheels of jax and jaxlib; download them unless they are there from an earlier call."""
    found = [sorted(WHEELS.glob(f"{name}-{version}-*.whl")) for name in ("jax", "jaxlib")]
    if all(found):
        return [each[0] for each in found]
    for python in PYTHONS:
        options = (
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "--python-version",
            python,
            "--dest",
            str(WHEELS),
        )
        if pip("download", *options, f"jax=={version}", f"jaxlib=={version}") is not None:
            return wheels(version)
    raise SystemExit(
        f"the wheels of JAX {version} cannot be had here, for any of Python {', '.join(PYTHONS)}"
    )
