"""What the stack of the main thread says about what the script does.

Names decide: of the functions on the stack, the innermost that has a telling name or is in a telling file.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from jaxtop_agent.ledger.account import IN_JAX, IN_SCRIPT
from jaxtop_agent.stalls.stacks import short

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

# By the words of a function's name; a word ends at an underline or before a capital letter.
_RESTORING = re.compile(
    r"(?:^|_)(?:restor\w*|load_(?:checkpoint|ckpt|state|weights|pretrained|params)\w*|from_pretrained)(?:_|$)"
)
_SAVING = re.compile(r"(?:^|_)(?:sav(?:e|es|ing)|checkpoint(?:ing)?|ckpt|write_(?:checkpoint|ckpt))(?:_|$)")
_EVALUATING = re.compile(
    r"(?:^|_)(?:eval|evals|evaluate|evaluation|evaluating|valid|validate|validation)(?:_|$)"
)
_INPUT = re.compile(
    r"(?:^|_)(?:next_(?:batch|data|example|input)\w*|(?:get|load|make|fetch|read|sample)_(?:batch|batches|data|"
    r"example|examples|input|inputs)|batches|(?:data|batch|input)_(?:iter|iterator|loader|generator|stream)|"
    r"dataloader|data_loader|tokeni[sz]e\w*|prefetch\w*)(?:_|$)"
)
# Files of libraries whose functions wait for input, by the end or a part of their paths.
_INPUT_FILES = re.compile(
    r"(?:^|/)queue\.py$|torch/utils/data/|grain/|tensorflow/python/data/|tensorflow_datasets/|(?:^|/)datasets/|webdataset/"
)
_ORBAX = re.compile(r"orbax/checkpoint/")
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# `jax.checkpoint` rematerialises values: it saves nothing.
_JAX = ("jax/", "jaxlib/")
# Functions around the loop of steps: everything happens in them.
_LOOP = re.compile(r"(?:^|_)(?:train\w*|main|fit|loop|epochs?|experiment)(?:_|$)")


def of_stack(stack: Sequence[FrameType], *, is_in_jax: bool) -> str:
    """Return the kind of time that a stack, the innermost frame first, shows."""
    for frame in stack:
        kind = kind_of_function(frame.f_code.co_filename, frame.f_code.co_name)
        if kind:
            return kind
    return IN_JAX if is_in_jax else IN_SCRIPT


def evaluates(function: str) -> bool:
    """Return whether a compiled function evaluates, by its name."""
    return _EVALUATING.search(_words(function)) is not None


def _words(name: str) -> str:
    return _CAPITAL.sub("_", name).lower()


@lru_cache(maxsize=4096)
def kind_of_function(path: str, name: str) -> str:
    """Return the kind of time that a function on the stack shows; empty if its name says nothing."""
    file, words = short(path), _words(name)
    if file.startswith(_JAX) or _LOOP.search(words):
        return ""
    if _RESTORING.search(words):
        return "restoring"
    if _SAVING.search(words):
        return "saving"
    if _ORBAX.search(path):  # of its other functions, an outer one says what they are part of
        return "saving" if name == "wait_until_finished" else ""
    if _INPUT_FILES.search(path) or _INPUT.search(words):
        return "input"
    return "evaluating" if _EVALUATING.search(words) else ""
