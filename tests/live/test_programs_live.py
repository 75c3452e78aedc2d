"""The programs of real runs: figures held against sums by hand, storms, and processes that differ."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest

from jaxtop.base import keys
from jaxtop.base.names import program_of
from jaxtop.model.findings.reducer import reported_findings
from jaxtop.store import runfiles
from tests.support import PYTHON, ROOT, environment, eventually, free_port, processes, run, snapshot, viewer
from tests.support import script as write

pytestmark = pytest.mark.jax

SCRIPT = ROOT / "tests" / "programs" / "programs.py"
SIZE = 4  # float32


@contextmanager
def started(home, hosts=1, devices=2):
    """The script on so many processes, steered by files in the home; they can be found."""
    keys.load()  # made once, not by each process at the same time
    coordinator = "-" if hosts == 1 else f"127.0.0.1:{free_port()}"
    commands = [[PYTHON, SCRIPT, coordinator, hosts, i] for i in range(hosts)]
    with processes(*commands, env=environment(devices, STEER=str(home))) as running:
        eventually(lambda: len(list(runfiles.find())) == hosts)
        yield running


def found(name, document):
    return [program for program in document.get("programs", ()) if program["name"] == name]


def ended(home, started):
    (home / "stop").touch()
    return [process.wait() for process in started]


def test_a_snapshot_has_the_program_with_its_sizes(home):
    """And the exit status of the script stays its own."""
    with started(home) as script:

        def launched(more_than):
            """The program, once a pulse came after so many launches."""
            programs = found("jit_step", snapshot()[1])
            return [each for each in programs if each["hosts"] == [0] and (each["launches"] or 0) > more_than]

        (step,) = eventually(lambda: launched(more_than=0))
        weights, batch, total = 32 * 16 * SIZE, 8 * 4 * SIZE, SIZE
        assert step["argument_bytes"] == weights + batch
        # The compiler's table of a tuple's two parts, where it counts it.
        assert step["output_bytes"] - weights - total in (0, 2 * 8)
        assert step["flops"] >= 32 * 16 + 8 * 4
        assert (step["devices"], step["differs"]) == (1, [])
        assert step["compiles"] == 1 and step["compile_ms"] > 0
        assert step["created"].startswith("programs.py:") and step["created"].endswith(" <module>")
        assert step["fingerprint"]
        eventually(lambda: launched(more_than=step["launches"]))
        assert ended(home, script) == [0]


@pytest.mark.newest
def test_a_function_that_is_compiled_over_and_over_is_reported_once(home):
    """And its programs are gone as soon as the script lets go of them."""
    with started(home) as script, viewer() as attached:
        attached.until_state({0: "live"})
        pulses = [0]

        def is_told():
            """After each pulse it is compiled once more."""
            pulse = attached.host(0).pulse.at_ms
            if pulse != pulses[-1] and not (home / "storm").exists():
                pulses.append(pulse)
                (home / "storm").touch()
            return "jit_unsteady" in attached.host(0).programs.recompiling

        attached.until(is_told)
        attached.until(lambda: not (home / "storm").exists())
        compiled = len(pulses) - 1
        attached.until(lambda: attached.host(0).programs.compiles["jit_unsteady"] == compiled)
        storms = [event for event in attached.cluster.events if event.kind == "recompiling"]
        assert len(storms) == 1 and storms[0].severity == "warning"
        assert "unsteady was compiled" in storms[0].text

        def variants():
            return [each for each in attached.host(0).programs.programs if each.name == "jit_unsteady"]

        attached.until(lambda: len(variants()) == compiled)
        (home / "forget").touch()
        attached.until(lambda: not variants())  # nothing of ours keeps them
        assert ended(home, script) == [0]


def test_a_function_that_is_made_anew_in_each_step_is_found_though_none_stays_loaded(home):
    """An operation outside of `jax.jit` that is compiled as often is JAX's own."""
    with started(home) as script, viewer() as attached:
        attached.until_state({0: "live"})
        pulses = [0]

        def is_found():
            """After each pulse the script makes another one."""
            pulse = attached.host(0).pulse.at_ms
            if pulse != pulses[-1] and not (home / "fresh").exists():
                pulses.append(pulse)
                (home / "fresh").touch()
            return [each for each in reported_findings(attached.cluster) if each.rule == "recompilation"]

        attached.until(lambda: bool(is_found()))
        one, *others = is_found()
        line = next(
            i for i, each in enumerate(SCRIPT.read_text().splitlines(), 1) if "fresh function" in each
        )
        assert (one.subject.source, others) == (f"programs.py:{line}", [])
        assert one.text.startswith(f"<lambda> at programs.py:{line} was compiled ")
        assert "a new function object, though its code is the same" in one.text
        programs = attached.host(0).programs
        assert {"jit_tan", "jit__lambda"} - set(programs.of_jax) == {"jit__lambda"}
        assert ended(home, script) == [0]


def test_functions_of_jax_are_distinguished_from_those_of_the_script_by_where_they_are_defined():
    """Also where the script's have the same names.

    Functions compiled ahead of time, and those that JAX makes for a transformation outside of `jax.jit`, have
    their names as well.
    """
    done = run(PYTHON, ROOT / "tests" / "programs" / "compiling.py")
    noted = json.loads(done.stdout)
    assert noted["by the script"] == [
        "jit__lambda",
        "jit_ahead",
        "jit_graded",
        "jit_init_layer",
        "jit_subtract",
    ]
    assert {"jit_init_layer"} == set(noted["initialize"]) & set(noted["by the script"])
    fives, others = ("jit__lambda", "jit_init_layer", "jit_subtract"), {"jit_ahead": 1, "jit_graded": 2}
    assert noted["remembered"] == {**dict.fromkeys(fives, 5), **others}
    compiled = [noted["compiled"][f"jit_{name}"] for name in ("multiply", "bitwise_and", "_truncated_normal")]
    assert compiled == [5, 5, 5]
    assert noted["launched"]["ahead"] == 3 and noted["launched"]["graded"] >= 3
    assert "PjitFunction" not in str(noted)


@pytest.mark.newest
def test_processes_that_compiled_different_programs_under_one_name_are_reported(home):
    """And what they compiled alike, or each for itself, is not."""
    with started(home, hosts=2) as script:
        eventually(lambda: all((home / f"ready-{i}").exists() for i in (0, 1)))

        def differing():
            _, document = snapshot()
            return document if any(each["differs"] for each in document.get("programs", ())) else None

        document = eventually(differing, every=2)
        splits = found("jit_split", document)
        assert sorted((each["hosts"], each["differs"]) for each in splits) == [([0], [1]), ([1], [0])]
        assert [each["devices"] for each in splits] == [4, 4]
        (same,) = found("jit_same", document)
        assert (same["hosts"], same["differs"]) == ([0, 1], [])
        assert not any(each["differs"] for each in document["programs"] if each["name"] != "jit_split")
        assert ended(home, script) == [0, 0]


def test_the_program_of_a_function_without_a_name_is_called_as_jax_calls_it(tmp_path):
    text = "import jax; print(jax.jit(lambda x: x).lower(1).as_text())"
    assert f"module @{program_of('<lambda>')} " in run(PYTHON, write(tmp_path, text)).stdout
