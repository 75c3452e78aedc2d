"""The look-ups of the whole agent, and the types that `jaxprivate/declarations.py` gives to what it reads."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from tests.jaxnames.annotations import annotated, comments, constant
from tests.jaxnames.names import ANYWHERE, Path, Use
from tests.jaxnames.reading import AGENT, PRIVATE, Reader
from tests.support import ROOT

# They name files of JAX.
KNOW_FRAMES = (ROOT / "jaxtop" / "model", AGENT / "stalls")


class Declared(NamedTuple):
    """A type of `declarations.py`, or a list of names of it."""

    path: Path
    is_names: bool
    line: int
    without: str


def uses(files=None):
    """Return every look-up in these files; by default in all of the agent, with the declared types."""
    found = [use for each in readers(files) for use in each.found]
    if files is None:
        found += [
            Use(one.path, f"declarations.py:{one.line}", without=one.without)
            for one in declarations().values()
            if one.path.root != ANYWHERE
        ]
        found += source_files()
    return list(dict.fromkeys(found))


def source_files():
    """Return the files of JAX whose frames mean that a thread waits or compiles, as look-ups."""
    found = []
    for file in sorted(each for folder in KNOW_FRAMES for each in folder.rglob("*.py")):
        texts = filter(None, map(constant, ast.walk(ast.parse(file.read_text()))))
        names = (text for text in texts if re.fullmatch(r"[\w/]+\.py", text))
        found += [Use(Path(ANYWHERE, ((name,),)), str(file.relative_to(ROOT))) for name in names]
    return found


def readers(files=None):
    """Return one reader for each file, which has read it."""
    declared, results, texts = declarations(), {}, {}
    for file in sorted(PRIVATE.glob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                results[node.name] = annotated(node.returns, declared)
            elif isinstance(node, ast.Assign):
                texts[ast.unparse(node.targets[0])] = constant(node.value)
    if files is None:
        files = [file for file in sorted(AGENT.rglob("*.py")) if "jaxprivate" in file.read_text()]
    return [Reader(file, declared, results, texts) for file in files]


def declarations():
    """Return the types of `declarations.py` by name."""
    text = (PRIVATE / "declarations.py").read_text()
    found, said = {}, comments(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("Annotated["):
            name, kind, root = re.findall(r"^(\w+) = Annotated\[(.*), '(.*)'\]$", ast.unparse(node))[0]
            without = said.get(node.lineno, said.get(node.lineno - 1, ""))
            is_names = kind.startswith("tuple") or root == ANYWHERE
            found[name] = Declared(Path(root), is_names, node.lineno, without)
    return found
