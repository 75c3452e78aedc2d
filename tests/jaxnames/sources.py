"""Where a version of JAX defines a name, from the sources and strings in its wheels. Nothing is imported."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache, cached_property
from zipfile import ZipFile

from tests.jaxnames.reading import ANYWHERE, CALLED, EACH

# Larger than the libraries that only load another one, and than those of single operations.
LIBRARY_BYTES = 3_000_000
# The value is of a type of Python, or of another library: its attributes are not JAX's.
FOREIGN, COMPILED = "foreign", "compiled"
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


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


class Sources:
    """The wheels of one version: that of jax, and that of jaxlib."""

    def __init__(self, *wheels):
        self.text, self._binary, self._files, self._wheels = {}, set(), [], wheels
        self.in_libraries, self.anywhere = cache(self._in_libraries), cache(self._anywhere)
        self.bodies, self.global_ = cache(self._bodies), cache(self._global)
        for wheel in wheels:
            with ZipFile(wheel) as archive:
                self._files += archive.namelist()
                for name in archive.namelist():
                    if name.endswith((".py", ".pyi")):
                        # A stub says more than a module of the same name.
                        self.text.setdefault(module_of(name), []).insert(0, archive.read(name).decode())
                    elif name.endswith(".so"):
                        self._binary.add(module_of(name))

    @cached_property
    def _libraries(self):
        found = []
        for wheel in self._wheels:
            with ZipFile(wheel) as archive:
                entries = [each for each in archive.infolist() if each.filename.endswith(".so")]
                most = max((each.file_size for each in entries), default=0)
                large = [each for each in entries if each.file_size >= min(most, LIBRARY_BYTES)]
                found += [part for each in large for part in constants(archive.read(each))]
        return found

    def _in_libraries(self, name):
        """Whether a library has this name as a text of its own, or in the signature of a function.

        Linkers keep a name that is the end of a longer one only once, as that end.
        """
        text, signature = name.encode() + b"\0", b"def " + name.encode() + b"("
        for library in self._libraries:
            if signature in library:
                return True
            at = library.find(text)
            while at >= 0:
                if (
                    not at
                    or library[at - 1 : at] == b"\0"
                    or chr(library[at - 1]).isalnum()
                    or library[at - 1] == ord("_")
                ):
                    return True
                at = library.find(text, at + 1)
        return False

    @cached_property
    def _everything(self):
        words = re.compile(r"^\s*(?:def|class)\s+(\w+)|\b(\w+)\s*[:=]", re.MULTILINE)
        return {
            word
            for texts in self.text.values()
            for text in texts
            for pair in words.findall(text)
            for word in pair
        }

    def _anywhere(self, name):
        """Whether a file, a function, a class, an attribute or a whole text of JAX has this name."""
        if name.endswith(".py"):
            return any(f"/{file}".endswith(f"/{name}") for file in self._files)
        if "/" in name:
            return any(
                f"{quote}{name}{quote}" in text
                for texts in self.text.values()
                for text in texts
                for quote in "'\""
            )
        return name in self._everything or self.in_libraries(name)

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


def constants(library):
    """Return the parts of a library that have its constants; all of another file."""
    if not library.startswith(b"\x7fELF\x02\x01"):
        return [library]
    start, size, count = (
        int.from_bytes(library[at:to], "little") for at, to in ((0x28, 0x30), (0x3A, 0x3C), (0x3C, 0x3E))
    )
    found = []
    for at in range(start, start + size * count, size):
        kind = int.from_bytes(library[at + 4 : at + 8], "little")
        flags, _, offset, length = (
            int.from_bytes(library[at + i : at + i + 8], "little") for i in (8, 16, 24, 32)
        )
        if kind == 1 and flags & 2 and not flags & 4:  # content that is loaded, but not executed
            found.append(library[offset : offset + length])
    return found


def parsed(text):
    """Return the syntax of a source; parameters of types are a spelling that older Pythons do not know."""
    try:
        return ast.parse(text)
    except SyntaxError:
        plain = re.sub(r"^(\s*(?:class|def|async def)\s+\w+)\[.*?\](?=[(:])", r"\1", text, flags=re.MULTILINE)
        return ast.parse(re.sub(r"^(\s*)type (\w+)(\[.*?\])? =", r"\1\2 =", plain, flags=re.MULTILINE))


def module_of(name):
    """Return the module of a file in a wheel."""
    path = re.sub(r"(\.cpython[^.]*|\.abi3)?\.(pyi?|so)$", "", name)
    return path.removesuffix("/__init__").replace("/", ".")


def is_jax(module):
    return module.split(".")[0] in {"jax", "jaxlib"}


def is_property(node):
    return any("property" in ast.unparse(each) for each in node.decorator_list)


def statements(body):
    """Return the statements of a block, also those in conditions and the like, but not in definitions."""
    for node in body:
        yield node
        if not isinstance(node, DEFINITIONS):
            for field in ("body", "orelse", "finalbody"):
                yield from statements(getattr(node, field, ()))
            for handler in getattr(node, "handlers", ()):
                yield from statements(handler.body)


def definition(body, name):
    """Return the last statement of a block that defines a name, a definition or annotation before others."""
    found = None
    for node in statements(body):
        if name in defined(node) and (found is None or isinstance(node, (*DEFINITIONS, ast.AnnAssign))):
            found = node
    return found


def defined(node):
    if isinstance(node, DEFINITIONS):
        return {node.name}
    if isinstance(node, ast.ImportFrom):
        return {each.asname or each.name for each in node.names}
    if isinstance(node, ast.Import):
        return {each.asname or each.name.split(".")[0] for each in node.names}
    targets = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, ast.AnnAssign)
        else []
    )
    return {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}


def from_(module, node, is_package):
    """Return the module that an import takes names from."""
    if not node.level:
        return node.module or ""
    parents = module.split(".") if is_package else module.split(".")[:-1]
    parents = parents[: len(parents) - node.level + 1]
    return ".".join([*parents, *([node.module] if node.module else [])])


def parts(node):
    """Return the types in an annotation, in order."""
    if isinstance(node, ast.BinOp):
        return [*parts(node.left), *parts(node.right)]
    if isinstance(node, ast.Subscript):
        return [*parts(node.value), *parts(node.slice)]
    if isinstance(node, ast.Tuple):
        return [part for each in node.elts for part in parts(each)]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return parts(ast.parse(node.value, mode="eval").body)
    return [node] if isinstance(node, ast.Name | ast.Attribute) else []
