"""A serving engine in the way of JetStream: prefill, insert into the cache of keys and values, generate.

Requests come through a queue; a thread of the engine serves them.
"""

import queue
import threading
from functools import partial

import jax
import jax.numpy as jnp
from until import FEW, steps

SLOTS, LENGTH, WIDTH, WORDS, LAYERS = 8, 128, 256, 512, 2


@partial(jax.jit, static_argnames="length")
def prefill(params, tokens, length):
    x = params["embed"][tokens]
    cached = []
    for layer in params["layers"]:
        cached.append({"k": x @ layer["k"], "v": x @ layer["v"]})
        mask = jnp.tril(jnp.ones((length, length), bool))
        weights = jax.nn.softmax(jnp.where(mask, x @ layer["q"] @ cached[-1]["k"].T / 16, -1e9))
        x = x + weights @ cached[-1]["v"]
    return cached, jnp.argmax(x[-1] @ params["embed"].T)


@partial(jax.jit, donate_argnums=0)
def insert(decode_state, cached, token, slot):
    caches = [
        {name: each[name].at[slot, : new[name].shape[0]].set(new[name]) for name in each}
        for each, new in zip(decode_state["kv_cache"], cached, strict=True)
    ]
    return {
        "kv_cache": caches,
        "tokens": decode_state["tokens"].at[slot].set(token),
        "lengths": decode_state["lengths"].at[slot].set(cached[0]["k"].shape[0]),
    }


@partial(jax.jit, donate_argnums=1)
def generate(params, decode_state):
    x, lengths = params["embed"][decode_state["tokens"]], decode_state["lengths"]
    caches = []
    for layer, cache in zip(params["layers"], decode_state["kv_cache"], strict=True):
        rows = jnp.arange(SLOTS)
        keys = cache["k"].at[rows, lengths].set(x @ layer["k"])
        values = cache["v"].at[rows, lengths].set(x @ layer["v"])
        scores = jnp.einsum("bd,bld->bl", x @ layer["q"], keys) / 16
        weights = jax.nn.softmax(jnp.where(jnp.arange(LENGTH) <= lengths[:, None], scores, -1e9))
        x = x + jnp.einsum("bl,bld->bd", weights, values)
        caches.append({"k": keys, "v": values})
    tokens = jnp.argmax(x @ params["embed"].T, axis=-1)
    return {"kv_cache": caches, "tokens": tokens, "lengths": jnp.minimum(lengths + 1, LENGTH - 1)}


class Engine:
    def __init__(self):
        keys = iter(jax.random.split(jax.random.key(0), 1 + 3 * LAYERS))

        def matrix(*shape):
            return jax.random.normal(next(keys), shape) * 0.05

        layers = [{name: matrix(WIDTH, WIDTH) for name in "qkv"} for _ in range(LAYERS)]
        self.params = {"embed": matrix(WORDS, WIDTH), "layers": layers}
        cache = jnp.zeros((SLOTS, LENGTH, WIDTH))
        self.decode_state = {
            "kv_cache": [{"k": jnp.copy(cache), "v": jnp.copy(cache)} for _ in range(LAYERS)],
            "tokens": jnp.zeros(SLOTS, jnp.int32),
            "lengths": jnp.zeros(SLOTS, jnp.int32),
        }
        self.requests = queue.Queue(4)

    def serve(self):
        slot = 0
        while (request := self.requests.get()) is not None:
            prompt, answer = request
            cached, token = prefill(self.params, prompt, length=len(prompt))
            self.decode_state = insert(self.decode_state, cached, token, slot)
            text = []
            for _ in range(16):
                self.decode_state = generate(self.params, self.decode_state)
                text.append(int(self.decode_state["tokens"][slot]))
            answer.put(text)
            slot = (slot + 1) % SLOTS


def main():
    engine = Engine()
    server = threading.Thread(target=engine.serve)
    server.start()
    for number in steps():
        answer = queue.Queue()
        engine.requests.put((jnp.arange(32) * (number + 1) % WORDS, answer))
        text = answer.get()
        if number == FEW - 1:
            print(text, flush=True)
    engine.requests.put(None)
    server.join()


main()
