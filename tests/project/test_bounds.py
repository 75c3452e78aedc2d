"""The lower bounds of dependencies: `make test-lowest` runs what uses them on exactly these versions."""

from __future__ import annotations

import os
import re
import tomllib
from importlib.metadata import version

import pytest

from jaxtop.base import tested_versions
from tests.support import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def bounds(*lists):
    """The names of dependencies and their lower bounds."""
    listed = [each for some in lists for each in some if not each.startswith("jaxtop[")]
    return dict(each.split(">=") for each in listed)


def numbers(text):
    """A version as numbers, without zeros at its end."""
    found = [int(each) for each in re.findall(r"\d+", text)]
    while found and not found[-1]:
        found.pop()
    return found


@pytest.mark.skipif(not os.environ.get("JAXTOP_LOWEST"), reason="for `make test-lowest` alone")
def test_what_is_installed_is_the_lowest_that_is_allowed():
    lowest = bounds(PROJECT["dependencies"], EXTRAS["jax"], EXTRAS["demo"], EXTRAS["tpu"])
    assert {name: numbers(version(name)) for name in lowest} == {
        name: numbers(bound) for name, bound in lowest.items()
    }


def test_the_oldest_jax_of_the_extra_is_the_one_that_is_tested():
    makefile = (ROOT / "Makefile").read_text()
    (oldest,) = re.findall(r"^JAX \?= (.*)$", makefile, re.MULTILINE)
    assert oldest == tested_versions.written(tested_versions.LOWEST_JAX)
    assert bounds(EXTRAS["jax"]) == {"jax": oldest, "jaxlib": oldest}


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md"])
def test_the_tested_versions_of_jax_are_on_the_page(page):
    lowest, highest = (
        tested_versions.written(tested_versions.LOWEST_JAX),
        tested_versions.written(tested_versions.HIGHEST_JAX),
    )
    assert f" JAX {lowest} to {highest} and Python " in (ROOT / page).read_text()
