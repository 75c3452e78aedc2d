"""What the ledger and the findings say of scripts that take their batches from real loaders."""

import json
from importlib.util import find_spec

import pytest

from jaxtop.features.ledger import collect
from jaxtop.model import newest_hosts, reported_findings
from jaxtop.store import ledgers, runfiles
from tests import patience
from tests.cases import thorough
from tests.support import PYTHON, ROOT, SOAK, environment, eventually, processes, viewer

pytestmark = [pytest.mark.jax, pytest.mark.newest, pytest.mark.timeout(300)]

PROGRAM = ROOT / "tests" / "programs" / "loaders.py"
LOADERS = ["thread", "grain", "grain_workers", "torch_workers"]
# A batch takes most of a step, no time at all, or now and then a second. The rest of a step is short, because
# samples of half a minute measure a wait to 3 % only where most of them, or few, see it.
SLOW, FAST, STALLS = (0.08, 0, 0, 1), (0, 0, 0, 12), (0.004, 32, 1.0, 1)


@pytest.fixture
def loading(tmp_path):
    """Run the script until a check of what a viewer sees holds; return what it saw and the ledger."""

    def run(loader, planted, check):
        if loader.startswith("torch") and find_spec("torch") is None:
            pytest.skip("torch is not installed: pip install --editable '.[loaders]'")
        folder = tmp_path / "ledgers"
        env = environment(1, JAXTOP_LEDGER=str(folder))
        with processes([PYTHON, PROGRAM, loader, *planted], env=env, cwd=tmp_path) as (process,):
            eventually(lambda: process.poll() is not None or runfiles.find())
            assert process.poll() is None
            with viewer() as attached:
                seen = {}

                def holds():
                    assert process.poll() is None
                    seen.update({each.rule: each for each in reported_findings(attached.cluster)})
                    return check(attached.cluster, seen)

                attached.until(holds)
            (tmp_path / "stop").touch()
            eventually(lambda: process.poll() is not None)
            assert process.returncode == 0
        truth = json.loads((tmp_path / "spent.json").read_text())
        (job,), problems = collect.ledgers_of_files(sorted(folder.glob(f"*{ledgers.SUFFIX}")))
        assert not problems
        (ledger,) = job.attempts[0].processes
        return seen, truth, ledger

    return run


def assert_close(ledger, truth):
    """Compare with what the script has measured itself; samples come late where they wait for a core."""
    whole = sum(ledger.spent.values())
    allowed = max(0.5, 0.03 * whole) * min(patience.factor(), 3.0)
    assert ledger.spent.get("input", 0.0) == pytest.approx(truth["input"], abs=allowed), ledger.spent


@pytest.mark.parametrize(
    "loader", [thorough(each) if each in ("thread", "grain") else each for each in LOADERS]
)
def test_waits_for_a_slow_loader_are_measured_and_reported(loading, loader):
    def is_blamed(_, seen):
        found = seen.get("input_bound")
        return found and found.cost.share_of_step > 0.5 and "its queue empty in" in found.text

    _, truth, ledger = loading(loader, SLOW, is_blamed)
    assert_close(ledger, truth)


@pytest.mark.parametrize("loader", LOADERS if SOAK else ["grain"])
def test_a_fast_loader_is_not_accused(loading, loader):
    def is_measured(cluster, _):
        (host,) = newest_hosts(cluster) or (None,)
        rhythm = host and host.pulse.rhythm
        return rhythm and rhythm.p50_us and sum(host.activity.samples) >= 40

    seen, truth, ledger = loading(loader, FAST, is_measured)
    assert_close(ledger, truth)
    assert not {"input_bound", "pauses"} & seen.keys()


@pytest.mark.parametrize("loader", LOADERS if SOAK else ["thread"])
def test_stalls_of_a_loader_are_reported_with_their_period(loading, loader):
    def is_named(_, seen):
        return "pauses" in seen and "every 32 steps" in seen["pauses"].text

    seen, truth, ledger = loading(loader, STALLS, is_named)
    assert_close(ledger, truth)
    assert "input_bound" not in seen
