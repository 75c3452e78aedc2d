"""Where threads or memory run out, the script goes on, without an agent, and `jaxtop ls` says why."""

from __future__ import annotations

import os
from subprocess import PIPE

import pytest

from jaxtop.store import runfiles
from tests.real.unharmed import START
from tests.support import JAXTOP, PYTHON, SOAK, eventually, jaxtop, processes, run, script

pytestmark = [pytest.mark.jax, pytest.mark.newest]

# Root has no limit of threads. So it takes another real user, who has no other process, and gives up the
# right to exceed limits; its files stay its own.
SHORT = """
    import ctypes, os, resource, struct, sys, time
    what, left = sys.argv[1], int(sys.argv[2])
    if what == "threads" and os.getuid() == 0:
        os.setresuid(20_000 + os.getpid(), 0, 0)
        kept = 0xFFFFFFFF & ~(1 << 24 | 1 << 21)                # CAP_SYS_RESOURCE, CAP_SYS_ADMIN
        head, caps = struct.pack("Ii", 0x20080522, 0), struct.pack("6I", kept, kept, 0, 0, 0, 0)
        assert ctypes.CDLL(None).capset(head, caps) == 0
    import jax, numpy as np
    step = jax.jit(lambda x: x * 0.5 + 1)
    x = step(np.full(8, 2.0)).block_until_ready()
    if what == "threads":
        used = len(os.listdir("/proc/self/task"))
        resource.setrlimit(resource.RLIMIT_NPROC, (used + left, used + left))
    else:
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (left << 20), used + (left << 20)))
    {start}
    import jaxtop_agent
    print("ready", flush=True)
    while not (jaxtop_agent._agent.is_over and os.path.exists("go")):
        x = step(x)
        time.sleep(0.001)
    print(float(x.sum()))
    sys.exit(3)
"""


CASES = [("threads", left) for left in range(1, 7)] + [("memory", 8), ("memory", 64), ("memory", 256)]


@pytest.mark.parametrize(("what", "left"), CASES if SOAK else CASES[1:8:3])
def test_a_script_that_is_short_of_room_goes_on_and_is_not_shown(tmp_path, what, left):
    """ZeroMQ would abort it."""
    if os.getuid() and what == "threads":
        pytest.skip("the threads of this user's other processes would count, too")
    words = [PYTHON, script(tmp_path, SHORT.replace("{start}", START)), what, left]
    with processes(words, stdout=PIPE, stderr=PIPE, cwd=tmp_path) as (process,):
        assert process.stdout.readline() == "ready\n"
        if what == "memory":  # a process of two users is nobody's who could be told
            eventually(lambda: [*(tmp_path / ".local/state/jaxtop/runs").glob("*.unshown")])
            listed = jaxtop("ls").stdout
            assert f"not shown: script.py (pid {process.pid}): less than" in listed
        (tmp_path / "go").touch()
        stdout, stderr = process.communicate()
    assert (process.returncode, stdout, stderr) == (3, "16.0\n", "")
    assert not runfiles.find()
    assert "not shown" not in jaxtop("ls").stdout


def test_a_limit_of_address_space_that_is_enough_for_a_script_is_enough_with_the_agent(tmp_path):
    """JAX crashes when it gets no memory, so the agent must not take what the script needs."""
    path = script(
        tmp_path,
        """
        import re, sys, jax, jax.numpy as jnp
        print(float(jax.jit(lambda x: (x @ x).sum())(jnp.ones((64, 64)))))
        print(re.search(r"VmPeak:\\s+(\\d+)", open("/proc/self/status").read())[1], file=sys.stderr)
        sys.exit(1)
        """,
    )
    free = run(PYTHON, path)
    limit = int(free.stderr) + (64 << 10)
    limited = ["bash", "-c", f'ulimit -v {limit}; exec "$@"', "-"]
    for words in ([PYTHON], [*JAXTOP, "run"]):
        done = run(*limited, *words, path)
        assert (done.returncode, done.stdout) == (free.returncode, free.stdout) == (1, "262144.0\n")
