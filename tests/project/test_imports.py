"""No module imports itself through others, not for annotations either; and no folder is too large to read.

Imports at module level and under TYPE_CHECKING count. Imports inside functions do not: each has its reason
beside it.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
# More than this is not read in an hour.
MOST_FILES = 20


def test_no_module_imports_itself_through_others():
    graph = imports_of(ROOT / "jaxtop") | imports_of(ROOT / "agent" / "jaxtop_agent")
    cyclic = {module for module in graph if module in reached(graph, module)}
    assert not cyclic, sorted(cyclic)


def test_no_folder_has_more_than_twenty_files():
    packages = [*(ROOT / "jaxtop").rglob("__init__.py"), *(ROOT / "agent").rglob("__init__.py")]
    sizes = {str(each.parent.relative_to(ROOT)): len([*each.parent.glob("*.py")]) for each in packages}
    full = {name: size for name, size in sizes.items() if size > MOST_FILES}
    assert not full, f"move what belongs together into a folder of its own: {full}"


def imports_of(package: Path) -> dict[str, set[str]]:
    """Return what each module of a package imports, as names of modules or of things in them."""
    files = {
        ".".join(path.relative_to(package.parent).with_suffix("").parts): path
        for path in package.rglob("*.py")
    }
    return {
        name.removesuffix(".__init__"): set(_imported(ast.parse(path.read_text())))
        for name, path in files.items()
    }


def _imported(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _imported(child)


def reached(graph: dict[str, set[str]], start: str) -> set[str]:
    """Return all modules that a module imports, directly or through others."""
    found: set[str] = set()
    left = [start]
    while left:
        for name in graph[left.pop()]:
            module = name if name in graph else name.rpartition(".")[0]
            if module in graph and module not in found:
                found.add(module)
                left.append(module)
    return found
