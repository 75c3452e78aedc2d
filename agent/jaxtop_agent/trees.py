"""The norms of a tree and of its parts, and what in them is not finite, computed in the script's own step.

Loaded with the package, so that `agent.step` knows them; nothing here imports JAX before the script has.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

# The number of named parts; further parts count together under the last name.
MOST_PARTS, OTHERS = 64, "others"
LONGEST_PART = 60
_registering = threading.Lock()
_is_registered = False


class Norms:
    """The L2 norms of a tree and of its parts, and how many of their elements are not finite.

    A pytree of two arrays of float32, with an entry for each of `names`; the first, "", is the whole tree.
    Norms are those of the finite elements.
    """

    __slots__ = ("names", "nonfinite", "norm")

    def __init__(self, names: tuple[str, ...], norm: Any, nonfinite: Any) -> None:
        self.names, self.norm, self.nonfinite = names, norm, nonfinite

    def __repr__(self) -> str:
        return f"Norms of {', '.join(name or 'the whole' for name in self.names) or 'nothing'}"

    @property
    def is_computed(self) -> bool:
        """Whether its arrays have values, one for each name; while JAX traces the step, they have none."""
        return all(
            hasattr(type(each), "is_ready") and each.shape == (len(self.names),)
            for each in (self.norm, self.nonfinite)
        )


def norms_of(tree: Any) -> Norms:
    """Return the norms of a tree; the norms of an empty tree if it cannot be read."""
    import jax  # the script has imported it; the agent's package is loaded without

    _register(jax)
    try:
        return _compute(jax, tree)
    except Exception as error:  # this must not end a training run
        from jaxtop.base import debuglog  # not needed otherwise

        debuglog.warning("norms", "agent.norms() cannot read this tree", error=error)
        return Norms((), *[jax.numpy.zeros(0, "float32")] * 2)


def _compute(jax: Any, tree: Any) -> Norms:
    jnp = jax.numpy
    squares: dict[str, list[Any]] = {}
    counts: dict[str, list[Any]] = {}
    for part, leaf in _parts(jax, tree):
        is_finite = jnp.isfinite(leaf)
        # Not in a dtype that is smaller than float32, in which squares overflow.
        values = jnp.abs(jnp.where(is_finite, leaf, jnp.zeros_like(leaf)))
        values = values.astype(jnp.promote_types(values.dtype, jnp.float32))
        squares.setdefault(part, []).append(jnp.sum(values * values).astype(jnp.float32))
        counts.setdefault(part, []).append(jnp.sum(~is_finite, dtype=jnp.int32).astype(jnp.float32))
    zero = jnp.zeros((), jnp.float32)
    by_part = [[sum(each, zero) for each in sums.values()] for sums in (squares, counts)]
    of_all = [jnp.stack([sum(each, zero), *each]) for each in by_part]
    norm, nonfinite = jnp.sqrt(of_all[0]), of_all[1]
    if len(squares) == 1:  # the part is the whole
        return Norms(("",), norm[:1], nonfinite[:1])
    return Norms(("", *squares), norm, nonfinite)


def _parts(jax: Any, tree: Any) -> Iterator[tuple[str, Any]]:
    """Yield the arrays of numbers in a tree, each with its part: where the paths first differ."""
    jnp = jax.numpy
    found = [
        (path, leaf)
        for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]
        # Not counters, keys and settings.
        if hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.inexact)
    ]
    paths = [path for path, _ in found]
    depth = 0
    while len(paths) > 1 and all(len(path) > depth and path[depth] == paths[0][depth] for path in paths):
        depth += 1
    names: dict[str, None] = {}
    for path, leaf in found:
        name = _name(path[depth]) if len(path) > depth else ""
        if name not in names and len(names) >= MOST_PARTS - 1:
            name = OTHERS
        names[name] = None
        yield name, leaf


def _name(key: Any) -> str:
    for attribute in ("key", "name", "idx"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))[:LONGEST_PART]
    return str(key)[:LONGEST_PART]


def _register(jax: Any) -> None:
    global _is_registered  # noqa: PLW0603 - JAX registers a type once per process
    with _registering:
        if not _is_registered:
            jax.tree_util.register_pytree_node(
                Norms,
                lambda each: ((each.norm, each.nonfinite), each.names),
                lambda names, children: Norms(names, *children),
            )
            _is_registered = True
