"""What docs/frameworks.md promises of each framework, on tiny scripts that use it as its users do.

Only in `make soak`, which installs the libraries.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from subprocess import PIPE

import pytest

from tests.support import JAXTOP, PYTHON, ROOT, SOAK, environment, eventually, processes, run, snapshot

pytestmark = [
    pytest.mark.jax,
    pytest.mark.newest,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not SOAK, reason="runs in `make soak`"),
]

SCRIPTS = ROOT / "tests" / "programs" / "frameworks"


@dataclass(frozen=True)
class Promise:
    """What the page says of a script."""

    libraries: tuple[str, ...]
    step: str = ""  # the function whose launch ends a step; empty where none is promised
    roles: frozenset[str] = frozenset()  # of arrays that have names
    role: str = ""  # of the process, as the page asks for

    @property
    def named(self) -> float:
        """Return the share of the bytes that has names."""
        return 0.95 if self.roles else 0.0


TRAINS = frozenset({"parameters", "optimizer"})
PROMISES = {
    "nnx_mesh": Promise(("flax", "optax"), "train_step", TRAINS),
    "equinox_rnn": Promise(("equinox", "optax"), "make_step", TRAINS),
    "keras_fit": Promise(("keras",), "train_step", TRAINS),
    "serving_engine": Promise((), "", frozenset({"parameters", "other"}), "engine"),
    # Of these the page promises no more than that they are shown and run as without.
    "numpyro_svi": Promise(("numpyro",)),
    "numpyro_mcmc": Promise(("numpyro",)),
    "ppo_scanned": Promise(("flax", "gymnax", "optax")),
    "levanter_trainer": Promise(("levanter", "haliax")),
}


def share_with_names(document) -> float:
    held = sum(each["bytes_per_device"] for each in document["arrays"])
    return sum(each["bytes_per_device"] for each in document["arrays"] if each["name"]) / max(held, 1)


def holds(promise, document) -> bool:
    """Whether a snapshot shows what the page promises."""
    if not document.get("hosts") or not document["arrays"]:
        return False
    step = document["hosts"][0]["step"] or {}
    roles = {each["role"] for each in document["arrays"]}
    is_found = not promise.step or step.get("function") == promise.step
    return is_found and promise.roles <= roles and share_with_names(document) >= promise.named


@pytest.mark.parametrize("name", PROMISES)
def test_a_framework_is_seen_as_its_page_says_and_runs_as_without(name, home):
    promise = PROMISES[name]
    lacking = [library for library in promise.libraries if find_spec(library) is None]
    if lacking:
        pytest.skip(f"not installed: {', '.join(lacking)}")
    script = SCRIPTS / f"{name}.py"
    (home / "alone").mkdir()
    (home / "alone" / "stop").touch()
    alone = run(PYTHON, script, env=environment(4, STEER=str(home / "alone")), cwd=home)
    assert alone.returncode == 0 and alone.stdout, alone.stderr
    command = [*JAXTOP, "run", script]
    env = environment(4, STEER=str(home), **({"JAXTOP_ROLE": promise.role} if promise.role else {}))
    with processes(command, env=env, cwd=home, stdout=PIPE, stderr=PIPE) as (watched,):

        def document():
            assert watched.poll() is None, watched.communicate()
            _, found = snapshot("--watch", "5")
            return found if holds(promise, found) else None

        found = eventually(document)
        (home / "stop").touch()
        out, err = watched.communicate()
    assert (watched.returncode, out) == (0, alone.stdout), err
    assert [each for each in found["findings"] if each["severity"] == "critical"] == []
