"""No two classes have one name, so that a name says which class is meant.

This holds for public classes in the whole project. In one room it holds for private classes too, without
their underscore: a reader of `_Line` beside `Line` has to look up both. A room is the agent, each package of
`jaxtop`, and each feature. Classes in a class or a function do not count: the messages of a widget are named
with it, as in `MeshGrid.Moved`.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import jaxtop
import jaxtop_agent

PACKAGE, AGENT = Path(jaxtop.__file__).parent, Path(jaxtop_agent.__file__).parent


def rooms() -> dict[str, Path]:
    folders = [*PACKAGE.iterdir(), *(PACKAGE / "features").iterdir(), AGENT]
    return {
        each.name: each for each in folders if (each / "__init__.py").exists() and each.name != "features"
    }


def shared(*folders: Path, with_private: bool) -> dict[str, list[str]]:
    """The places of each name that several classes in these folders have."""
    found = defaultdict(list)
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and (with_private or not node.name.startswith("_")):
                    found[node.name.lstrip("_")].append(f"{path.relative_to(folder)}:{node.lineno}")
    return {name: where for name, where in found.items() if len(where) > 1}


@pytest.mark.parametrize("name", rooms())
def test_a_name_is_one_class_in_its_room(name):
    assert shared(rooms()[name], with_private=True) == {}


def test_a_public_name_is_one_class_in_the_project():
    assert shared(PACKAGE, AGENT, with_private=False) == {}


def test_two_classes_of_one_name_are_found(tmp_path):
    (tmp_path / "one.py").write_text("class Line: pass\nclass Other: pass\n")
    (tmp_path / "two.py").write_text("class _Line: pass\n")
    assert shared(tmp_path, with_private=True) == {"Line": ["one.py:1", "two.py:1"]}
    assert shared(tmp_path, with_private=False) == {}
