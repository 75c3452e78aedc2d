"""Definitions in the sources of JAX."""

from __future__ import annotations

import ast
import re

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def parsed(text):
    """Return the syntax of a source; parameters of types are a spelling that older Pythons do not know."""
    try:
        return ast.parse(text)
    except SyntaxError:
        plain = re.sub(r"^(\s*(?:class|def|async def)\s+\w+)\[.*?\](?=[(:])", r"\1", text, flags=re.MULTILINE)
        return ast.parse(re.sub(r"^(\s*)type (\w+)(\[.*?\])? =", r"\1\2 =", plain, flags=re.MULTILINE))


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
