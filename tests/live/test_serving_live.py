"""A server that compiles all shapes before it serves, and one request of another shape."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import PIPE

import pytest

from tests.support import (
    JAXTOP,
    environment,
    eventually,
    jaxtop_here,
    processes,
    script,
    until_a_run_is_found,
)

pytestmark = [pytest.mark.jax, pytest.mark.newest]

SERVING = """
    import os, sys, time
    import jax, jax.numpy as jnp

    LAYERS, WIDTH, ROOM = 40, 32, 64

    @jax.jit
    def prefill(weights, tokens):
        x = jnp.eye(WIDTH)[tokens % WIDTH]
        cache = []
        for i in range(LAYERS):
            x = jnp.tanh(x @ weights[i])
            cache.append(jnp.pad(x, ((0, ROOM - len(tokens)), (0, 0))))
        return jnp.stack(cache)

    @jax.jit
    def decode(weights, cache, at):
        x = jnp.tanh(cache[-1] @ weights[0]).sum(0)
        return cache.at[-1, at].set(x)

    weights = jax.random.normal(jax.random.key(0), (LAYERS, WIDTH, WIDTH)) / 8

    def serve(length):
        cache = prefill(weights, jnp.arange(length))
        for at in range(length, length + 8):
            cache = decode(weights, cache, at)
        return float(cache.sum())

    for length in (16, 32):
        serve(length)
    print("warm", flush=True)
    served, odd = 0, False
    while not os.path.exists("go"):
        if os.path.exists("odd") and not odd:
            odd = True
            serve(24)
        serve((16, 32)[served % 2])
        served += 1
        time.sleep(0.05)
    print(odd, f"{serve(16):.3f}")
"""


def test_one_odd_request_is_found_with_its_shape_and_what_it_cost(tmp_path):
    settings = Path.home() / ".config" / "jaxtop"
    settings.mkdir(parents=True, exist_ok=True, mode=0o700)
    (settings / "config.toml").write_text("[rules.compiled_late]\nseconds = 6\n")
    path = script(tmp_path, SERVING)
    options = {"cwd": tmp_path, "stdout": PIPE, "stderr": PIPE, "env": environment(1, JAXTOP_ROLE="server")}
    with processes([*JAXTOP, "run", path], **options) as (process,):
        assert process.stdout.readline() == "warm\n"
        until_a_run_is_found()

        def late():
            document = json.loads(jaxtop_here("check", "--json", "--wait", "8").stdout)
            return [each for each in document["findings"] if each["rule"] == "compiled_late"]

        assert late() == []

        def decoding():
            document = json.loads(jaxtop_here("snapshot", "--json", "--watch", "8").stdout)
            (program,) = (each for each in document["programs"] if each["function"] == "decode")
            return program["launch_p50_us"] and program

        program = eventually(decoding)
        assert 1 <= program["launch_p50_us"] <= (program["launch_p99_us"] or 1e6) < 1e7
        assert program["launches_in_windows"] >= 8
        (tmp_path / "odd").touch()
        (one,) = eventually(late)
        (tmp_path / "go").touch()
        out, err = process.communicate()
    assert one["text"].startswith("prefill took ") and one["text"].endswith("int32[32] → int32[24]"), one
    assert one["severity"] == "warning" and one["evidence"][0]["value"] >= 0.2
    assert (process.returncode, out.split()[0], err) == (0, "True", "")
