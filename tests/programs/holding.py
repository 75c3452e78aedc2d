"""Holds arrays where scripts hold them, one function for each place; no two have the same shape."""

from __future__ import annotations

import itertools
import threading
from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx
from jax._src.core import new_ref  # not public before 0.9
from jax.experimental import sparse

for_ever = threading.Event()


class Momentum(nnx.Variable):
    """A kind of variable that the script makes for itself."""


class Optimizer(nnx.Module):
    def __init__(self, model):
        self.model = model
        self.momentum = nnx.data({"w1": Momentum(jnp.zeros((21, 64)))})


class Model(nnx.Module):
    def __init__(self):
        self.w1 = nnx.Param(jnp.ones((20, 64)))
        super().__init__()


def holds_refs():
    weights = new_ref(jnp.ones((10, 64)))
    state = {"m": new_ref(jnp.ones((11, 64)))}
    for_ever.wait()
    return weights, state


class Counters:
    """A class that keeps a reference for all its objects."""

    steps = new_ref(jnp.ones((16, 64)))


def holds_sparse():
    matrix = sparse.BCOO((jnp.ones(12), jnp.zeros((12, 2), jnp.int32)), shape=(99, 99))
    for_ever.wait()
    return matrix


def holds_partial():
    step = partial(print, jnp.ones((13, 64)), other=jnp.ones((14, 64)))
    tree = jax.tree_util.Partial(print, jnp.ones((15, 64)))
    for_ever.wait()
    return step, tree


def shares_a_model():
    optimizer = Optimizer(Model())
    for_ever.wait()
    return optimizer


def evaluates():
    """A method of this name is in every script of NNX."""
    model = Model()
    model.w1 = nnx.Param(jnp.ones((22, 64)))
    model.eval()
    model.train()
    for_ever.wait()
    return model


def loader():
    images = jnp.ones((30, 64))
    for _ in inner():
        yield images


def inner():
    labels = jnp.ones((31, 64))
    while labels.shape:
        yield 0


def eval(model):  # noqa: A001 - scripts call their own functions like Python's
    return model


def evaluates_itself():
    parameters = eval(jnp.ones((23, 64)))
    for_ever.wait()
    return parameters


def loads():
    batches = loader()
    next(batches)
    again = itertools.cycle([jnp.ones((32, 64))])
    next(again)
    listed = enumerate([jnp.ones((33, 64))])
    for_ever.wait()
    return batches, again, listed


def reads():
    pool = jnp.ones((35, 64))
    while pool.shape:
        for_ever.wait(0.02)
        yield 0


def loops():
    """The loop holds the generator, and no variable does."""
    for _ in reads():
        for_ever.wait(0.02)


def has_roles():
    replicated_params = jnp.ones((40, 64))
    initial_params = {"w": jnp.ones((41, 64))}
    init_params = jnp.ones((42, 64))
    for_ever.wait()
    return replicated_params, initial_params, init_params


for function in (
    holds_refs,
    holds_sparse,
    holds_partial,
    shares_a_model,
    evaluates,
    evaluates_itself,
    loads,
    loops,
    has_roles,
):
    threading.Thread(target=function, daemon=True).start()
for_ever.wait()
