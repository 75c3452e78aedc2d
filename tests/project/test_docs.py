"""The documentation: links lead somewhere, generated pages are current, what users can type is described."""

from __future__ import annotations

import ast
import builtins
import json
import re
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

from jaxtop.model.cluster import REDUCERS
from jaxtop.tui.dialogs.help import NOT_LISTED
from jaxtop.tui.screens import SCREENS
from tests import builders, pages
from tests.faults import table
from tests.faults.outcome import Outcome
from tests.stage import Stage, play

ROOT = Path(__file__).parents[2]
WRITTEN = sorted(
    [
        *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "tests/README.md")),
        *ROOT.glob("docs/**/*.md"),
    ]
)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(page):
    for target in LINK.findall(page.read_text()):
        if target.startswith(("http://", "https://")):
            continue
        path, _, heading = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name} links to {target}"
        if heading:
            assert heading in headings(file), f"{page.name} links to {target}"


def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("picture", sorted((ROOT / "screenshots").glob("*.svg")), ids=lambda path: path.stem)
def test_every_picture_shows_the_app(picture):
    assert picture.read_text().count("<text ") > 20, "run `make screenshots`"


def test_generated_pages_are_current():
    old = [name for name, text in pages.pages().items() if (pages.DOCS / name).read_text() != text]
    assert old == [], "run `make docs`"


def test_the_results_of_the_fault_bench_are_on_the_page(tmp_path, monkeypatch):
    (tmp_path / "results.json").write_text(json.dumps([Outcome("killed", "demo", "host_lost").as_json()]))
    monkeypatch.setattr(table, "RESULTS", tmp_path / "results.json")
    assert "| `killed` |" in pages.findings_page()


def test_every_key_that_help_shows_is_on_the_page_of_keys():
    rows = re.findall(r"^\| (`.*`) \| (.*) \|$", (pages.DOCS / "keys.md").read_text(), re.MULTILINE)
    written = {(key, description) for keys, description in rows for key in re.findall(r"`(.+?)`", keys)}

    async def act(stage: Stage) -> None:
        for screen in SCREENS:
            await stage.press(screen.key)
            shown = [each.binding for each in stage.screen.active_bindings.values()]
            listed = [each for each in shown if each.description and each.action not in NOT_LISTED]
            keys = {(pages.SHOWN.get(each.key, each.key), each.description) for each in listed}
            assert {each for each in keys if not each[0].isdigit()} <= written

    play(act, *builders.well())


def test_every_environment_variable_is_documented():
    code = "\n".join(file.read_text() for room in ("jaxtop", "agent") for file in (ROOT / room).rglob("*.py"))
    # Set by `jaxtop run` for the process it starts, removed there; set by tests.
    internal = {"JAXTOP_BOOT", "JAXTOP_DEMO_SIZE"}
    written = "\n".join(page.read_text() for page in WRITTEN)
    used = set(re.findall(r"\bJAXTOP_[A-Z_]+\b", code)) - internal
    assert {name for name in used if name not in written} == set()


DEVELOPMENT = sorted(str(page.relative_to(ROOT)) for page in ROOT.glob("docs/development/adding-*.md"))


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md", *DEVELOPMENT])
def test_every_file_that_a_developer_page_names_exists(name):
    text = (ROOT / name).read_text()
    of_example = set(re.findall(r"^`([\w/.]+)`, new:", text, re.MULTILINE))
    named = set(re.findall(r"`((?:jaxtop|agent|tests|docs)/[\w/.]+)`", text)) - of_example
    assert named and [path for path in named if not (ROOT / path).exists()] == []


def test_every_attack_on_the_page_of_security_has_its_test():
    rows = re.findall(
        r"^\|[^|]*\| ([^|]+) \| [^|]+ \| ([^|]+) \|$", (pages.DOCS / "security.md").read_text(), re.MULTILINE
    )
    tests = "\n".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    there = set(re.findall(r"^ *def (test_\w+)", tests, re.MULTILINE))
    assert len(rows) > 30
    for attack, proof in rows[2:]:
        named = re.findall(r"`(test_\w+)`", proof)
        assert (named and set(named) <= there) or proof.startswith("none: "), attack


def test_every_builder_on_the_page_of_tests_exists():
    page = (ROOT / "tests/README.md").read_text()
    named = re.findall(r"`([\w/]+)\.(\w+)[`(]", page)
    assert len(named) > 20
    for module, name in named:
        assert hasattr(import_module(f"tests.{module.replace('/', '.')}"), name) or name == "py"


def _module(function):
    """Return the last name of its module; of the reducer of findings, the name of its package."""
    *_, package, module = function.__module__.split(".")
    return package if module == "reducer" else module


def test_every_file_type_and_function_on_the_page_of_journeys_exists():
    page = (ROOT / "docs/development/journeys.md").read_text()
    packages = ROOT / "jaxtop", ROOT / "agent"
    paths = re.findall(r"`([\w/]+\.py)`", page)
    assert paths and [path for path in paths if not any((each / path).exists() for each in packages)] == []

    code = "\n".join(file.read_text() for each in packages for file in each.rglob("*.py"))
    defined = set(re.findall(r"\b(?:class|def) (\w+)", code)) | set(dir(builtins))
    types = re.findall(r"^\| (?:[\w ]+ \| )?\d+ \| `(\w+)` \|", page, re.MULTILINE)
    order = re.search(r"each reducer of `REDUCERS` in order: ([^.]*)\.", page)[1]
    assert re.findall(r"\w+", order) == [_module(each.reduce) for each in REDUCERS]
    classes = re.findall(r"`(_?[A-Z][a-z]\w*)(?:\.\w+)*`", page)
    functions = re.findall(r"`(?:[\w.]+\.)?(\w+)\(\)`", page)
    assert len(types) > 20 and {*types, *classes, *functions} - defined == set()


MODULES = [file for each in ("jaxtop", "agent") for file in (ROOT / each).rglob("*.py")]
FILES = {file.name for file in MODULES}
PACKAGES = sorted(folder for folder, count in Counter(file.parent for file in MODULES).items() if count >= 8)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: str(package.relative_to(ROOT)))
def test_a_package_of_eight_files_says_what_is_in_which(package):
    file = package / "__init__.py"
    named = set(re.findall(r"\w+\.py\b", ast.get_docstring(ast.parse(file.read_text())) or ""))
    files = {each.name for each in package.glob("*.py")} - {"__init__.py", "__main__.py"}
    lacking = [f"- {name}: …" for name in sorted(files - named)]
    assert not lacking, f"add to the docstring of {file.relative_to(ROOT)}, where it is to be read: {lacking}"
    gone = named - FILES
    assert not gone, f"take out of the docstring of {file.relative_to(ROOT)}: {gone}"


def test_the_readme_is_one_page():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_the_glossary_is_short_and_in_order():
    """Terms of one feature stand in its own README."""
    glossary = re.findall(r"^\| ([^|]+?) \|", (ROOT / "docs/glossary.md").read_text(), flags=re.MULTILINE)[1:]
    of_features = [
        term
        for page in ROOT.glob("jaxtop/features/*/README.md")
        for term in re.findall(r"(?:Words: |; )\*([^*]+)\*,", page.read_text())
    ]
    assert 40 < len(glossary) <= 60 and glossary == sorted(glossary, key=str.lower)
    assert len(of_features) > 15 and len({*glossary, *of_features}) == len(glossary) + len(of_features)
