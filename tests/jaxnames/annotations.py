"""What annotations and comments in the code of the agent say."""

from __future__ import annotations

import ast
import tokenize
from io import StringIO

# A comment beside a look-up, or above it, that says what the agent does without the name.
WITHOUT = "# Without it: "


def spelled(annotation):
    """Return the names in an annotation, such as `Client` in `list[Client]`, or `declarations.Client`."""
    nodes = ast.walk(annotation) if annotation is not None else ()
    return [ast.unparse(each) for each in nodes if isinstance(each, ast.Name | ast.Attribute)]


def annotated(annotation, declared):
    """Return the path of the declared type in an annotation."""
    kinds = (declared.get(name) for name in spelled(annotation))
    return next((kind.path for kind in kinds if kind is not None and not kind.is_names), None)


def constant(node):
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def comments(text):
    """Return what comments say of a missing name, by the line where they end."""
    found, before = {}, None
    for token in tokenize.generate_tokens(StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line, words = token.start[0], token.string
            if WITHOUT in words:
                found[line] = words.partition(WITHOUT)[2]
                before = line
            elif before == line - 1:
                found[line] = f"{found.pop(before)} {words.removeprefix('# ')}"
                before = line
    return found
