"""A name means one thing: one class in the whole project, and in the model either a module or a function.

Of private classes this holds in one room only, there without their underscore: a reader of `_Line` beside
`Line` has to look up both. A room is the agent, each package of `jaxtop`, and each feature. Classes in a
class or a function do not count: the messages of a widget are named with it, as in `MeshGrid.Moved`.
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


def test_no_function_of_the_model_has_the_name_of_a_module():
    """`jaxtop.model.devices` is the module also where the package exports the function."""
    paths = list((PACKAGE / "model").rglob("*.py"))
    modules = {path.parent.name if path.name == "__init__.py" else path.stem for path in paths}
    functions = {
        node.name
        for path in paths
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
    }
    assert functions & modules == set()
