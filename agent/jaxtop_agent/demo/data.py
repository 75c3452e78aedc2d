"""The demo's text: source code that every Python installation has, so that no network is needed."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import logging
import pathlib
import subprocess
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from jaxtop_agent.demo.model import CONTEXT

if TYPE_CHECKING:
    from numpy.typing import NDArray

LENGTH = CONTEXT + 1  # the model learns to predict the next byte
BOOKS = (argparse, ast, dataclasses, inspect, logging, pathlib, subprocess, textwrap)


class Corpus(NamedTuple):
    """The bytes to train on, and bytes that the model never trains on."""

    train: NDArray[np.uint8]
    held_out: NDArray[np.uint8]


def corpus() -> Corpus:
    """Return the text as bytes, with its last tenth held out."""
    text = "\n".join(inspect.getsource(book) for book in BOOKS)
    codes = np.frombuffer(text.encode(), np.uint8)
    cut = len(codes) * 9 // 10
    return Corpus(codes[:cut], codes[cut:])


def batch(
    text: NDArray[np.uint8], draw: tuple[int, ...], rows: int, sharding: Any, length: int = LENGTH
) -> Any:
    """Return `rows` excerpts as one global array, of which each process makes only its own shards.

    Every process draws all positions, which costs nothing. So the batch depends on `draw` alone, and not on
    the number of processes.
    """
    starts = np.random.default_rng(draw).integers(len(text) - LENGTH, size=rows)
    offsets = np.arange(length)

    def shard(index: tuple[slice, ...]) -> NDArray[np.uint8]:
        excerpts: NDArray[np.uint8] = text[starts[index[0], None] + offsets]
        return excerpts

    return jax.make_array_from_callback((rows, length), sharding, shard)
