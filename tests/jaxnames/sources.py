"""Where a version of JAX defines a name, from the sources and strings in its wheels. Nothing is imported."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache, cached_property

from tests.jaxnames.names import ANYWHERE, CALLED, EACH
from tests.jaxnames.syntax import DEFINITIONS, definition, from_, is_property, parsed, parts, statements
from tests.jaxnames.wheels import Wheels

# The value is of a type of Python, or of another library: its attributes are not JAX's.
FOREIGN, COMPILED = "foreign", "compiled"


@dataclass(frozen=True)
class Found:
    """A definition: its module, and the node there; `kind` instead where there is none."""

    module: str = ""
    node: ast.AST | None = None
    kind: str = ""
    is_instance: bool = False

    @property
    def is_class(self):
        return isinstance(self.node, ast.ClassDef)

    @property
    def is_function(self):
        return isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef)


class Sources(Wheels):
    """One version of JAX."""

    def __init__(self, *wheels):
        super().__init__(*wheels)
        self.bodies, self.global_ = cache(self._bodies), cache(self._global)

    def _bodies(self, module):
        return [parsed(text).body for text in self.text.get(module, ())]

    # Paths

    def missing(self, use):
        """Return the part of a path that this version lacks, as words; "" if it has all of it.

        None if an earlier part is missing, or a function that is called: another look-up reports that.
        """
        found, said = self.root(use.path.root), use.path.root
        if found is None:
            return None if use.path.steps else said
        for place, step in enumerate(use.path.steps):
            after = self.after(found, step)
            if after is None:
                is_first = place == len(use.path.steps) - 1 and use.arguments is None
                return f"{said}.{'|'.join(step)}" if is_first else None
            if step not in (CALLED, EACH):
                said = f"{said}.{'|'.join(step)}"
            found = after
        return self.unlike(found, use, said)

    def evidence(self, use):
        """Return what shows that a name is there: "source", "library", or "" where its owner is not JAX's."""
        owner = found = self.root(use.path.root)
        for step in use.path.steps:
            owner, found = found, found and self.after(found, step)
        if found is None or owner is None:
            return ""
        return {COMPILED: "library", FOREIGN: ""}.get(owner.kind, "source")

    def root(self, path):
        """Return a module, or a definition in one, or the variables of a function."""
        if "|" in path:
            return next((found for each in path.split("|") if (found := self.root(each)) is not None), None)
        if path == ANYWHERE:
            return Found(ANYWHERE, kind="anything")
        names = path.removesuffix("()").split(".")
        for count in range(len(names), 0, -1):
            found = self.module(".".join(names[:count]))
            if found is not None:
                for name in names[count:]:
                    found = found and self.after(found, (name,))
                if found is not None and found.is_class:
                    return Found(found.module, found.node, is_instance=True)
                is_variables = path.endswith("()") and found is not None
                return Found(found.module, found.node, "variables") if is_variables else found
        return None

    def module(self, name):
        if name in self.text:
            return Found(name, kind="module")
        # A compiled module may have others in it, which have no files.
        is_compiled = name in self._binary or name.rpartition(".")[0] in self._binary
        return Found(name, kind=COMPILED) if is_compiled else None

    def after(self, found, step):
        """Return what the first of these names leads to; None if there is none of them."""
        if found.kind == FOREIGN:
            return found
        if step == EACH:
            return found if found.kind == COMPILED else Found(kind=FOREIGN)
        if step == CALLED:
            return self.called(found)
        return next((each for name in step if (each := self.attribute(found, name)) is not None), None)

    def called(self, found):
        if found.kind == COMPILED:
            return found
        if found.is_class:
            return Found(found.module, found.node, is_instance=True)
        if found.is_function and found.node.returns is not None:
            return self.annotated(found.module, found.node.returns)
        return Found(kind=FOREIGN)

    def attribute(self, found, name):  # noqa: PLR0911 - a line for each kind of value
        if found.kind == "anything":
            return Found(kind=FOREIGN) if self.anywhere(name) else None
        if found.kind == COMPILED:
            return found if self.in_libraries(name) else None
        if found.kind == "variables":
            used = {each.id for each in ast.walk(found.node) if isinstance(each, ast.Name)}
            used |= {each.arg for each in ast.walk(found.node) if isinstance(each, ast.arg)}
            return Found(kind=FOREIGN) if name in used else None
        if found.kind == "module":
            return self.global_(found.module, name)
        if found.is_class:
            return self.member(found, name)
        if found.is_function:
            inner = definition(found.node.body, name)
            return None if inner is None else Found(found.module, inner)
        return Found(kind=FOREIGN)

    def _global(self, module, name):
        for body in self.bodies(module):
            node = definition(body, name)
            if node is not None:
                return self.resolved(module, node, name)
        for body in self.bodies(module):
            for each in statements(body):
                if isinstance(each, ast.ImportFrom) and any(one.name == "*" for one in each.names):
                    origin = self.module(from_(module, each, module in self.packages))
                    star = origin and self.attribute(origin, name)
                    if star is not None:
                        return star
        return self.module(f"{module}.{name}")

    @cached_property
    def packages(self):
        return {module.rpartition(".")[0] for module in (*self.text, *self._binary)}

    def resolved(self, module, node, name):
        """Return what a statement that gives this name a value defines."""
        if isinstance(node, DEFINITIONS):
            return Found(module, node)
        if isinstance(node, ast.ImportFrom):
            one = next(each for each in node.names if (each.asname or each.name) == name)
            origin = from_(module, node, module in self.packages)
            return self.imported(origin, one.name)
        if isinstance(node, ast.Import):
            one = next(each for each in node.names if (each.asname or each.name.split(".")[0]) == name)
            origin = one.name if one.asname else name
            return self.module(origin) if is_jax(origin) else Found(kind=FOREIGN)
        if isinstance(node, ast.AnnAssign):
            return self.annotated(module, node.annotation, node.value)
        return self.made(module, node.value)

    def imported(self, origin, name):
        if not is_jax(origin):
            return Found(kind=FOREIGN)
        owner = self.module(origin)
        return owner and self.attribute(owner, name)

    def annotated(self, module, node, value=None):
        """Return an object of the first type of JAX in an annotation."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = ast.parse(node.value, mode="eval").body
        outer = ast.unparse(node).split("[")[0].rpartition(".")[2]
        if outer in {"dict", "list", "tuple", "set", "Sequence", "Mapping", "str", "int", "bool"}:
            return Found(kind=FOREIGN)
        for each in parts(node):
            found = self.expression(module, each)
            if found is not None and (found.is_class or found.kind == COMPILED):
                return Found(found.module, found.node, found.kind, is_instance=True)
        return self.made(module, value) if isinstance(value, ast.Call) else Found(kind=FOREIGN)

    def made(self, module, value):
        """Return what an expression makes, as far as that is plain."""
        if isinstance(value, ast.Call):
            called = value.func.value if isinstance(value.func, ast.Subscript) else value.func
            found = self.expression(module, called)
            return self.called(found) if found is not None else Found(kind=FOREIGN)
        return (self.expression(module, value) if value is not None else None) or Found(kind=FOREIGN)

    def expression(self, module, node):
        """Return what a name, or an attribute of one, leads to; None for all else."""
        if isinstance(node, ast.Name):
            return self.global_(module, node.id)
        if isinstance(node, ast.Attribute):
            owner = self.expression(module, node.value)
            return owner and self.attribute(owner, node.attr)
        return None

    def member(self, found, name, within=8):
        """Return an attribute of a class or of its objects."""
        node = found.node
        direct = definition(node.body, name)
        if direct is not None and isinstance(direct, ast.FunctionDef) and is_property(direct):
            return self.called(Found(found.module, direct))
        if direct is not None:
            return self.resolved(found.module, direct, name)
        for each in ast.walk(node):
            targets = (
                each.targets
                if isinstance(each, ast.Assign)
                else [each.target]
                if isinstance(each, ast.AnnAssign)
                else []
            )
            for target in targets:
                if (
                    isinstance(target, ast.Attribute)
                    and target.attr == name
                    and ast.unparse(target.value) == "self"
                ):
                    return self.resolved(found.module, each, name)
        slots = definition(node.body, "__slots__")
        if slots is not None and name in {
            each.value for each in ast.walk(slots) if isinstance(each, ast.Constant)
        }:
            return Found(kind=FOREIGN)
        for base in node.bases if within else ():
            owner = self.expression(found.module, base.value if isinstance(base, ast.Subscript) else base)
            inherited = None
            if owner is not None and owner.is_class:
                inherited = self.member(owner, name, within - 1)
            elif owner is not None and owner.kind == COMPILED:
                inherited = self.attribute(owner, name)
            if inherited is not None:
                return inherited
        return None

    def unlike(self, found, use, said):
        """Return the parameters that a function does not have, as words; "" if it takes what it is given."""
        if use.arguments is None:
            return ""
        count, names = use.arguments
        if found.kind == COMPILED:
            lacks = [name for name in names if not self.in_libraries(name)]
            return f"{said}({', '.join(lacks)})" if lacks else ""
        if not found.is_function:
            return ""
        arguments = found.node.args
        plain = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
        if plain[:1] in (["self"], ["cls"]):
            plain = plain[1:]
        known = {*plain, *(each.arg for each in arguments.kwonlyargs)}
        lacks = [name for name in names if name not in known and arguments.kwarg is None]
        if count > len(plain) and arguments.vararg is None:
            lacks.append(f"{count} arguments")
        required = set(plain[count : len(plain) - len(arguments.defaults)]) | {
            each.arg
            for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if default is None
        }
        lacks += [f"without {name}" for name in sorted(required - set(names))] if count or names else []
        return f"{said}({', '.join(lacks)})" if lacks else ""


def is_jax(module):
    return module.split(".")[0] in {"jax", "jaxlib"}
