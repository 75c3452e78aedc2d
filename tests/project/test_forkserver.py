"""A script in a fork of the server behaves as one that Python itself started."""

from __future__ import annotations

import signal
from subprocess import PIPE

import pytest

from tests.real.forkserver import Forked
from tests.support import PYTHON, environment, eventually, processes, script

pytestmark = [pytest.mark.jax, pytest.mark.newest]

TEXT = """
    import os, sys, time
    import jax
    print(sys.argv[1:], __name__, os.path.basename(__file__), os.getcwd() == sys.path[0], os.environ["MINE"])
    print(jax.device_count(), float(jax.jit(lambda x: x + 1)(jax.numpy.ones(4)).sum()), flush=True)
    match sys.argv[1]:
        case "raise": raise ValueError("the script's own")
        case "stay": time.sleep(600)
    sys.exit(3)
"""


@pytest.mark.parametrize(("word", "status"), [("exit", 3), ("raise", 1), ("stay", -signal.SIGTERM)])
def test_a_forked_script_has_its_words_variables_devices_and_status(tmp_path, word, status):
    path = script(tmp_path, TEXT)
    with processes(
        [PYTHON, path, word], stdout=PIPE, stderr=PIPE, cwd=tmp_path, env=environment(3, MINE="yes")
    ) as (process,):
        assert isinstance(process, Forked)
        assert process.stdout.readline() == f"['{word}'] __main__ script.py True yes\n"
        assert process.stdout.readline() == "3 8.0\n"
        if word == "stay":
            process.terminate()
        _, errors = process.communicate()
    assert process.returncode == status
    assert ("ValueError: the script's own" in errors) == (word == "raise")


def test_a_script_that_sees_other_variables_of_jax_has_an_interpreter_of_its_own(tmp_path):
    path = script(tmp_path, "import jax; print(jax.config.jax_debug_nans)")
    with processes([PYTHON, path], stdout=PIPE, env=environment(JAX_DEBUG_NANS="1")) as (process,):
        assert not isinstance(process, Forked)
        assert process.communicate()[0] == "True\n"


def test_the_status_of_a_script_is_its_own_however_early_it_is_asked_for(tmp_path):
    path = script(tmp_path, "import sys, time; time.sleep(0.1); sys.exit(3)")
    with processes([PYTHON, path]) as (process,):
        eventually(lambda: process.poll() is not None, every=0)
    assert process.returncode == 3
