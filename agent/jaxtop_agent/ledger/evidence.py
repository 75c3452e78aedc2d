"""The activity of the script, read from the stack of its main thread.

Names decide: of the functions on the stack, the innermost that has a telling name or is in a telling file.
Without one, a generator of the script on the stack produces its input.
"""

from __future__ import annotations

import re
from functools import lru_cache
from inspect import CO_GENERATOR
from typing import TYPE_CHECKING

from jaxtop_agent.arrays import origins
from jaxtop_agent.ledger.pieces import CLOSING, IN_JAX, IN_SCRIPT
from jaxtop_agent.stalls.stacks import short

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, FrameType

# By the words of a function's name; a word ends at an underline or before a capital letter.
_RESTORING = re.compile(
    r"(?:^|_)(?:restor\w*|load_(?:checkpoint|ckpt|state|weights|pretrained|params)\w*|from_pretrained)(?:_|$)"
)
_SAVING = re.compile(
    r"(?:^|_)(?:sav(?:e|es|ing)|checkpoint(?:ing)?|ckpt|write_(?:checkpoint|ckpt))(?:_|$)"
    # What else scripts save is not a checkpoint.
    r"(?!\w*(?:image|img|fig|plot|video|movie|gif|audio|wav|sample|grid|frame|metric|log|csv|json|yaml|text|"
    r"config|hparam|arg|histor|result|prediction|vocab|tokenizer|dataset|polic))"
)
_EVALUATING = re.compile(
    r"(?:^|_)(?:(?<!literal_)eval(?!_(?:shape|jaxpr|expr)(?:_|$))|evals|evaluate|evaluation|evaluating|validation|"
    r"test_(?:step|epoch|loop))(?:_|$)|"
    r"^_?(?:run_|do_)?valid(?:$|_(?:step|epoch|loop|loss|batch|acc|metric|one_epoch))"
)
# In libraries this is a check of arguments.
_VALIDATING = re.compile(r"(?:^|_)validate(?:_|$)")
_INPUT = re.compile(
    r"(?:^|_)(?:next_(?:batch|data|example|input)\w*|(?:get|load|make|fetch|read|sample)_(?:batch|batches|data|"
    r"example|examples|input|inputs)|batches|(?:data|batch|input)_(?:iter|iterator|loader|generator|stream)|"
    r"dataloader|data_loader|tokeni[sz]e\w*|prefetch\w*)(?:_|$)"
)
# Files of libraries whose functions wait for input, by their paths inside the libraries' folder.
_INPUT_FILES = re.compile(
    r"^(?:torch/utils/data/|torchdata/|grain/|tensorflow/python/data/|tensorflow_datasets/|datasets/|webdataset/|"
    r"seqio/|nvidia/dali/)"
)
# Their functions that end workers and threads.
_ENDING = re.compile(r"^(?:__del__|close|_?shutdown\w*|_?stop\w*)$")
# Functions of Python that wait for what other threads and processes produce.
_PRODUCED = re.compile(r"^python[^/]*/(?:queue\.py:get|multiprocessing/(?:queues\.py:get|pool\.py:next))$")
# Files of libraries that save pictures, tables and logs.
_NO_CHECKPOINTS = re.compile(
    r"^(?:PIL|matplotlib|torchvision|imageio|cv2|plotly|bokeh|moviepy|pandas|wandb|mlflow|tensorboard\w*)/"
)
_ORBAX = re.compile(r"orbax/checkpoint/")
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# `jax.checkpoint` rematerialises values: it saves nothing.
_JAX = ("jax/", "jaxlib/")
# Functions around the loop of steps: everything happens in them.
_LOOP = re.compile(r"(?:^|_)(?:train\w*|main|fit|loop|epochs?|experiment)(?:_|$)")
_TRAINING = re.compile(r"(?:^|_)(?:train\w*|main|fit|experiment)(?:_|$)")
# Modules that are being imported say nothing about what the script does.
_IMPORT, _MODULE = "<frozen importlib", "<module>"
# A generator with more than this share of its samples in JAX produces no input: the loop of steps is in it.
STEPS_IN_IT, FEW_SAMPLES, MOST_GENERATORS = 0.1, 8, 256
_PRODUCERS = ("__next__", "__iter__")


class StackKinds:
    """Tells what stacks show. It learns which generators of the script produce its input."""

    def __init__(self) -> None:
        self._generators: dict[CodeType, tuple[int, int]] = {}  # samples in it, and those of them in JAX

    def kind(self, stack: Sequence[FrameType], *, is_in_jax: bool) -> str:
        """Return the kind of time that a stack, the innermost frame first, shows."""
        found, produces, closes = "", False, False
        for frame in stack:
            code = frame.f_code
            if code.co_filename.startswith(_IMPORT):
                found, produces, closes = "", False, False
                continue
            closes = closes or closes_input(code.co_filename, code.co_name)
            if not found:
                found = kind_of_function(code.co_filename, code.co_name)
                if may_produce(
                    code.co_filename, code.co_name, is_generator=bool(code.co_flags & CO_GENERATOR)
                ):
                    produces |= self._produces(code, is_in_jax=is_in_jax)
        if found:
            return CLOSING if closes and found == "input" else found
        if is_in_jax:
            return IN_JAX
        return "input" if produces else IN_SCRIPT

    def _produces(self, code: CodeType, *, is_in_jax: bool) -> bool:
        samples, in_jax = self._generators.get(code, (0, 0))
        samples, in_jax = samples + 1, in_jax + is_in_jax
        if samples > 1 or len(self._generators) < MOST_GENERATORS:
            self._generators[code] = samples, in_jax
        return in_jax <= max(STEPS_IN_IT * samples, samples < FEW_SAMPLES and in_jax == 0)


@lru_cache(maxsize=4096)
def may_produce(path: str, name: str, *, is_generator: bool) -> bool:
    """Return whether a function of the script may produce its input: a generator or an iterator.

    While one is on the stack, the script asks for its next value.
    """
    if origins.is_library(path) or "/" in short(path) or _LOOP.search(_words(name)):
        return False
    return (is_generator and not name.startswith("<")) or name in _PRODUCERS


@lru_cache(maxsize=4096)
def closes_input(path: str, name: str) -> bool:
    """Return whether a function ends the workers of a loader."""
    return _ENDING.search(name) is not None and _INPUT_FILES.search(short(path)) is not None


@lru_cache(maxsize=4096)
def evaluates(function: str) -> bool:
    """Return whether a compiled function evaluates, by its name."""
    words = _words(function)
    return (_EVALUATING.search(words) or _VALIDATING.search(words)) is not None


def _words(name: str) -> str:
    return _CAPITAL.sub("_", name).lower()


@lru_cache(maxsize=4096)
def kind_of_function(path: str, name: str) -> str:
    """Return the kind of time that a function on the stack shows; empty if its name says nothing."""
    file, words = short(path), _words(name)
    if file.startswith(_JAX) or name == _MODULE:
        return ""
    is_of_script = "/" not in file
    evaluates_there = _EVALUATING.search(words) or (is_of_script and _VALIDATING.search(words))
    if _LOOP.search(words):
        return "evaluating" if evaluates_there and not _TRAINING.search(words) else ""
    restores, saves = _RESTORING.search(words), _SAVING.search(words) and not _NO_CHECKPOINTS.search(file)
    if _ORBAX.search(path) and name == "wait_until_finished":
        saves = True
    # Where files of loaders save or restore, that is a part of a checkpoint. Of Orbax's other functions, an
    # outer one says what they are part of.
    kinds = {
        "input": _PRODUCED.search(f"{file}:{name}")
        or (_INPUT_FILES.search(file) and not (restores or saves)),
        "": _INPUT_FILES.search(file),
        "restoring": restores,
        "saving": saves,
        "evaluating": evaluates_there and not _INPUT.search(words) and not _ORBAX.search(path),
    }
    found = next((kind for kind, holds in kinds.items() if holds), None)
    if found is not None:
        return found
    return "input" if _INPUT.search(words) and not _ORBAX.search(path) else ""
