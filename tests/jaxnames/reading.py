"""The names of JAX that the code of the agent reads, as paths from a module of JAX.

Types flow from `imported("jax._src.api")` and from the annotations of `jaxprivate/declarations.py`, through
variables, attributes of `self`, results of functions and loops. A variable with the name of a declared type,
such as `device`, has that type where nothing else gives it one.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from tests.jaxnames.annotations import annotated, comments, constant, spelled
from tests.jaxnames.names import CALLED, EACH, LISTED, Path, Use
from tests.support import ROOT

AGENT = ROOT / "agent" / "jaxtop_agent"
PRIVATE = AGENT / "jaxprivate"
# They give a type back, or the types in it.
SAME = {"list", "tuple", "iter", "next"}


class Reader:
    """Reads one file: `_name` methods take a node of that type, and the paths of the variables around it.

    `found` are its look-ups, `untyped` those whose owner has no type. `results` are the types of the
    functions of `jaxprivate`, `texts` its constants.
    """

    def __init__(self, file, declared, results, texts):
        self.file, self.is_private = file, PRIVATE in file.parents
        # Other files have types and variables of their own with these names.
        self.declared = (
            declared if self.is_private else {f"declarations.{name}": declared[name] for name in declared}
        )
        self.by_name = {name.lower(): one.path for name, one in self.declared.items() if not one.is_names}
        self.results, self.texts = results, texts
        self.found, self.untyped, self.own = [], [], {}
        self.comments = comments(file.read_text())
        self.block(ast.parse(file.read_text()).body, {})

    def note(self, path, node, without="", arguments=None):
        lines = (*range(node.lineno, node.end_lineno + 1), node.lineno - 1)
        said = next((self.comments[line] for line in lines if line in self.comments), without)
        is_agents = AGENT in self.file.parents
        place = f"{self.file.relative_to(AGENT.parent) if is_agents else self.file.name}:{node.lineno}"
        self.found.append(Use(path, place, arguments, said))
        return path

    def value(self, node, names):
        """Return the path of an expression or a statement, and note the look-ups in it."""
        return getattr(self, f"_{type(node).__name__.lower()}", self.others)(node, names)

    def others(self, node, names):
        for child in ast.iter_child_nodes(node):
            self.value(child, names)

    def first(self, nodes, names):
        """Return the path of the first of these expressions that has one."""
        return next((path for path in [self.value(node, names) for node in nodes] if path), None)

    def block(self, body, names):
        """Read the functions of a class after all else, and its `__init__` first: it sets what they read."""
        for node in sorted(body, key=lambda node: isinstance(node, ast.ClassDef)):
            self.value(node, names)

    # Statements

    def _classdef(self, node, names):
        self.own = {}
        for each in sorted(node.body, key=lambda each: getattr(each, "name", "") != "__init__"):
            self.value(each, names)

    def _functiondef(self, node, names):
        names, arguments = dict(names), node.args
        self.others(arguments, names)
        for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            names[each.arg] = annotated(each.annotation, self.declared) or self.by_name.get(each.arg)
        self.block(node.body, names)

    def _assign(self, node, names):
        for target in node.targets:
            self.assign(target, node.value, names)

    def _annassign(self, node, names):
        kind = next((one for one in map(self.declared.get, spelled(node.annotation)) if one), None)
        if kind is not None and kind.is_names:
            for each in ast.walk(node.value):
                if (text := constant(each)) is not None:
                    self.note(kind.path / (text,), each)
            return
        if node.value is not None:
            self.assign(node.target, node.value, names)
        if kind is not None:
            self.bind(node.target, kind.path, names)

    def _namedexpr(self, node, names):
        self.assign(node.target, node.value, names)
        return names.get(node.target.id)

    def _for(self, node, names):
        self.bind(node.target, each(self.value(node.iter, names)), names)
        self.block(node.body + node.orelse, names)

    def assign(self, target, value, names):
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for one, its in zip(target.elts, value.elts, strict=False):
                self.assign(one, its, names)
        else:
            self.bind(target, self.value(value, names), names)

    def bind(self, target, path, names):
        if isinstance(target, ast.Name):
            names[target.id] = path or self.by_name.get(target.id)
        elif isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
            self.own[target.attr] = path
        elif isinstance(target, ast.Attribute):
            self._attribute(target, names)
        elif isinstance(target, ast.Tuple):
            for one in target.elts:
                self.bind(one, each(path), names)

    # Expressions

    def _name(self, node, names):
        return names.get(node.id)

    def _attribute(self, node, names):
        if ast.unparse(node.value) == "self":
            return self.own.get(node.attr)
        owner = self.value(node.value, names)
        return None if owner is None or is_pythons(node.attr) else self.note(owner / (node.attr,), node)

    def _subscript(self, node, names):
        self.value(node.slice, names)
        return each(self.value(node.value, names))

    def _boolop(self, node, names):
        paths = [path for path in [self.value(one, names) for one in node.values] if path]
        if len(paths) > 1 and not any(path.steps for path in paths):
            return Path("|".join(path.root for path in paths))
        return paths[0] if paths else None

    def _ifexp(self, node, names):
        self.value(node.test, names)
        return self.first((node.body, node.orelse), names)

    def _tuple(self, node, names):
        path = self.first(node.elts, names)
        return path and path / LISTED

    _list = _tuple

    def _listcomp(self, node, names):
        names = dict(names)
        for part in node.generators:
            self.bind(part.target, each(self.value(part.iter, names)), names)
            self.first(part.ifs, names)
        return self.first((node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,), names)

    _setcomp = _generatorexp = _dictcomp = _listcomp

    def _call(self, node, names):
        name = ast.unparse(node.func)
        if name in {"imported", "import_module", "sys.modules.get"}:
            return self.imported(node, is_needed=name == "imported")
        if name in {"find", "named", "getattr"}:
            return self.looked_up(node, names, has_default=name == "getattr")
        arguments = [self.value(each, names) for each in (*node.args, *node.keywords)]
        own = name.removeprefix("jaxprivate.")
        if own in self.results and (name != own or self.is_private):
            return self.results[own]
        if name in SAME and arguments:
            return each(arguments[0]) if name == "next" else arguments[0]
        return self.variable(node, names) if node.args and name.endswith(".get") else self.called(node, names)

    def imported(self, node, *, is_needed):
        module = self.texts.get(ast.unparse(node.args[0])) or constant(node.args[0]) or ""
        if module.split(".")[0] not in {"jax", "jaxlib"}:
            return None
        return self.note(Path(module), node, "" if is_needed else "it goes on without the module")

    def looked_up(self, node, names, *, has_default):
        owner, alternatives = (
            self.value(node.args[0], names),
            tuple(filter(None, map(constant, node.args[1:]))),
        )
        without = ""
        if has_default and len(node.args) > 2:
            alternatives, without = alternatives[:1], f"it is taken as {ast.unparse(node.args[2])}"
        if not alternatives or (owner is None and is_pythons(alternatives[0])):
            return None
        if owner is None:
            self.untyped.append(ast.unparse(node))
            return None
        return self.note(owner / alternatives, node, without)

    def variable(self, node, names):
        """Note a variable of a frame, or an argument in a dict that JAX makes of them."""
        owner, name = self.value(node.func.value, names), constant(node.args[0])
        if owner is None or name is None or not owner.root.endswith("()"):
            return self.called(node, names)
        return self.note(owner / (name,), node)

    def called(self, node, names):
        path = self.value(node.func, names)
        if path is None:
            return None
        count = 0 if any(isinstance(each, ast.Starred) for each in node.args) else len(node.args)
        if path.steps:
            self.note(path, node, arguments=(count, tuple(each.arg for each in node.keywords if each.arg)))
        return path / CALLED


def each(path):
    """Return what a loop over a value gives; declared types say that of whole lists."""
    if path is None or not path.steps:
        return path
    return replace(path, steps=path.steps[:-1]) if path.steps[-1] == LISTED else path / EACH


def is_pythons(name):
    """Whether Python gives this name to functions, classes or modules."""
    return name.startswith("__") and name != "__version__"
