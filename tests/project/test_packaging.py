"""What is published: the contents of wheel and source archive, metadata, and the links of the README."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile

import pytest

from jaxtop import __version__
from tests.real.wheels import built, metadata
from tests.support import ROOT, SOAK, run

ADDRESS = "https://code.example.org/team/jaxtop"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# What pip and PyPI show; a wheel of a tool that is started with `uvx` is downloaded often.
LARGEST_WHEEL, LARGEST_SDIST, LARGEST_FILE = 1_800_000, 1_500_000, 150_000


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built("wheel", tmp_path_factory.mktemp("wheel"), JAXTOP_ADDRESS=f"{ADDRESS}/")


def tracked(*folders):
    """The files of these folders, without what Python makes of them."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file())
    return {str(path.relative_to(ROOT)) for path in found if "__pycache__" not in path.parts}


def test_the_wheel_has_the_two_packages_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        sizes = {each.filename: each.file_size for each in archive.infolist()}
    code = {name for name in sizes if ".dist-info/" not in name}
    assert code == {name.removeprefix("agent/") for name in tracked("jaxtop", "agent/jaxtop_agent")}
    assert {"jaxtop/py.typed", "jaxtop/__main__.py", "jaxtop_agent/boot/sitecustomize.py"} <= code
    kinds = {name.rpartition("/")[2] for name in sizes.keys() - code}
    assert kinds == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "LICENSE"}
    assert wheel.name == f"jaxtop-{__version__}-py3-none-any.whl"
    assert wheel.stat().st_size < LARGEST_WHEEL
    assert max(sizes.values()) < LARGEST_FILE


def test_the_source_archive_builds_and_no_more(tmp_path):
    """Neither pictures nor tests nor their data."""
    path = built("sdist", tmp_path)
    with tarfile.open(path) as archive:
        sizes = {each.name.partition("/")[2]: each.size for each in archive if each.isfile()}
    beside = {
        "CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "hatch_build.py", "pyproject.toml", ".gitignore",
    }  # fmt: skip
    assert sizes.keys() - beside == tracked("jaxtop", "agent")
    assert path.stat().st_size < LARGEST_SDIST
    assert max(sizes.values()) < LARGEST_FILE


def test_the_metadata_says_what_is_supported_and_where_the_project_is(wheel):
    found = metadata(wheel)
    assert found["Metadata-Version"] == "2.4" and found["Requires-Python"] == ">=3.11"
    assert found["License-Expression"] == "Apache-2.0"
    versions = [
        each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", each)
    ]
    assert versions == ["3.11", "3.12", "3.13", "3.14"]
    assert set(found.get_all("Classifier")) == set(PROJECT["classifiers"])
    assert set(found.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])
    links = dict(each.split(", ") for each in found.get_all("Project-URL"))
    assert links["Source"] == ADDRESS and links.keys() == {"Source", "Documentation", "Changelog", "Issues"}


def test_the_published_readme_has_absolute_links_to_files_that_exist(wheel):
    text = metadata(wheel).get_payload(decode=True).decode()
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    assert len(targets) == len(re.findall(r"\]\(([^)\s]+)\)", (ROOT / "README.md").read_text()))
    for target in targets:
        kind = "raw" if target.endswith(".svg") else "blob"
        path = target.removeprefix(f"{ADDRESS}/{kind}/HEAD/")
        assert path != target and (ROOT / path.partition("#")[0]).is_file(), target
    assert any(target.endswith(".svg") for target in targets)


def test_without_an_address_nothing_is_invented(tmp_path):
    found = metadata(built("wheel", tmp_path))
    assert found.get_all("Project-URL") is None
    assert found.get_payload(decode=True).decode() == (ROOT / "README.md").read_text()


@pytest.mark.long
@pytest.mark.skipif(not SOAK, reason="needs the package index: `make soak`")
def test_the_tools_of_users_build_and_start_it(tmp_path):
    """`python -m build`, `twine check`, and jaxtop from the wheel in empty environments: uvx, pipx, pip."""
    tools = tmp_path / "tools"
    subprocess.run([sys.executable, "-m", "venv", tools], check=True)
    names = ["build", "twine", "uv", "pipx"]
    got = run(tools / "bin/pip", "install", "--quiet", *names)
    if got.returncode:
        pytest.skip(f"the package index has not all of {', '.join(names)}: {got.stderr[-200:]}")
    dist = tmp_path / "dist"
    # The index may be one that only the system's certificates know.
    certificates = {"UV_SYSTEM_CERTS": "1", "UV_NATIVE_TLS": "1"}
    here = {"PATH": f"{tools}/bin:/usr/bin:/bin", "HOME": str(tmp_path), "JAXTOP_ADDRESS": ADDRESS}
    plain = {**os.environ, **certificates, **here}
    done = run(tools / "bin/python", "-m", "build", "--outdir", dist, ROOT, env=plain)
    assert done.returncode == 0, done.stdout + done.stderr
    done = run(tools / "bin/twine", "check", "--strict", *dist.iterdir(), env=plain)
    assert done.returncode == 0 and done.stdout.count("PASSED") == 2, done.stdout
    (wheel,) = dist.glob("*.whl")
    for words in (
        [tools / "bin/uv", "tool", "run", "--python", sys.executable, "--from", wheel, "jaxtop", "--version"],
        [tools / "bin/pipx", "run", "--spec", wheel, "jaxtop", "--version"],
    ):
        done = run(*words, env=plain, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, f"jaxtop {__version__}\n"), done.stderr
