"""`jaxtop plan` on recordings, from what is typed to what is printed and the exit status."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from jaxtop import wire
from tests.builders import NOW, agent_id, frame, training, well
from tests.played.recordings import recorded
from tests.support import is_one_line, jaxtop_here

MIB = 1 << 20
STEP = wire.Program(
    "jit_train_step", "f1", 8, 4, 1 << 30, argument_bytes=4 * MIB, output_bytes=4 * MIB, alias_bytes=4 * MIB,
    temp_bytes=MIB,
)  # fmt: skip
PROGRAMS = wire.Programs(int(NOW * 1000), (STEP,))


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """A recording of a training run on data=2, model=4."""
    path = tmp_path_factory.mktemp("plan") / "train.mcap"
    return recorded(path, [*training(), *(frame(agent_id(i), PROGRAMS, NOW + 5, 9) for i in range(2))])


def test_a_recording_is_planned_as_json(recording):
    done = jaxtop_here("plan", str(recording), "--json", "--devices", "4")
    document = json.loads(done.stdout)
    assert done.returncode == 0 and not done.stderr
    first, *others = document["candidates"]
    assert (first["mesh"], first["today"]) == ({"data": 2, "model": 4}, True)
    assert {each["devices"] for each in others} == {4}
    assert document["name"] == "train" and document["run"] == "r1"


def test_shardings_alone_are_compared_with_today_alone(recording):
    done = jaxtop_here("plan", str(recording), "--json", "--shard", "state.opt_state:replicated")
    today, other = json.loads(done.stdout)["candidates"]
    assert today["today"] and not today["shard"] and today["mesh"] == other["mesh"]
    assert other["shard"] == ["state.opt_state:replicated"]
    assert other["state_bytes_per_device"] > today["state_bytes_per_device"]


def test_a_mesh_may_have_an_axis_that_todays_lacks(recording):
    asked = ("--mesh", "data=2,expert=4", "--shard", "state.params:expert")
    today, other = json.loads(jaxtop_here("plan", str(recording), "--json", *asked).stdout)["candidates"]
    assert today["today"] and list(other["mesh"]) == ["data", "expert"]


def test_a_time_and_a_folder_are_planned_alike(recording):
    at_end = jaxtop_here("plan", str(recording), "--json", "--mesh", "data=8").stdout
    assert jaxtop_here("plan", str(recording.parent), "--json", "--mesh", "data=8").stdout == at_end
    early = jaxtop_here("plan", str(recording), "--at", "+1s", "--mesh", "data=8")
    assert early.returncode == 2 and is_one_line(early.stderr)


def test_of_several_runs_in_a_recording_one_can_be_named(tmp_path):
    frames = [*training(), *(frame(agent_id(i), PROGRAMS, NOW + 5, 9) for i in range(2))]
    for each in frames[:]:
        told = wire.decode(each.kind, each.raw)
        if isinstance(told, wire.Hello):
            told = replace(
                told, agent=f"b{told.agent[1:]}", run="r2", name="eval", started_ms=int(NOW * 1000)
            )
            idle = replace(told, agent=f"c{told.agent[1:]}", run="r3", name="idle")
            frames.append(each._replace(agent=idle.agent, raw=wire.encode(idle)))
        frames.append(each._replace(agent=f"b{each.agent[1:]}", raw=wire.encode(told)))
    path = str(recorded(tmp_path / "both.mcap", frames))
    done = jaxtop_here("plan", path, "--json", "--mesh", "data=8")
    assert json.loads(done.stdout)["name"] == "eval"
    said = "planned eval (r2), the newest of 2 runs; name another: train (r1)"
    assert done.stderr == f"jaxtop: {said}\n"
    done = jaxtop_here("plan", path, "train", "--json", "--mesh", "data=8")
    assert json.loads(done.stdout)["run"] == "r1" and not done.stderr
    for names, why in (
        (["none"], "there is no run none; there is eval, train, idle"),
        (["idle"], "no process of idle has counted its arrays"),
        (["a", "b"], "name one run"),
    ):
        done = jaxtop_here("plan", path, *names)
        assert done.returncode == 2 and is_one_line(done.stderr) and why in done.stderr


def test_text_has_the_width_that_is_asked_for(recording, monkeypatch):
    for columns in (40, 80, 250):
        monkeypatch.setenv("COLUMNS", str(columns))
        done = jaxtop_here("plan", str(recording), "--explain", "--shard", "state.opt_state:data")
        lines = done.stdout.splitlines()
        assert done.returncode == 0 and max(map(len, lines)) <= columns
        assert "data 2 × model 4 (today)" in done.stdout


def test_the_status_says_whether_a_candidate_fits(recording):
    asked = ("plan", str(recording), "--mesh", "data=8", "--json", "--memory")
    assert jaxtop_here(*asked, "80G").returncode == 0
    too_small = jaxtop_here(*asked, "1M")
    assert too_small.returncode == 1 and json.loads(too_small.stdout)["candidates"][1]["fits"] is False


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--mesh", "data=3"], "data=3 divides no array"),
        (["--mesh", "data=2,data=4"], "axis data stands twice"),
        (["--mesh", "data=0"], "has no devices"),
        (["--mesh", "data=99999999"], "has more than"),
        (["--mesh", "data:8"], "is not a mesh such as"),
        (["--mesh", "data=8", "--devices", "4"], "leave out --devices and --all"),
        (["--devices", "0"], "is not a number of devices"),
        (["--devices", "7"], "7 devices cannot be used"),
        (["--devices", "1000003"], "devices cannot be used"),
        (["--memory", "lots"], "is not a size of memory"),
        (["--shard", "state.opt_stat:data"], "no named array matches state.opt_stat; try state.opt_state"),
        (["--shard", "state.params:expert"], "cannot be divided by expert"),
        (["--shard", "state.params"], "is not a sharding such as"),
        (["--peaks"], "--peaks asks running processes"),
        (["--for", "speed"], "invalid choice: 'speed'"),
        (["--at", "never"], "is not a time"),
        (["--wait", "-1"], "is not between 0 and 3600 seconds"),
        (["no-such-run"], "there is no run no-such-run; there is train"),
        (["--via", "ssh login01"], "give either recordings or a live run"),
    ],
)
def test_wrong_input_is_one_clear_line(recording, words, said):
    done = jaxtop_here("plan", str(recording), *words)
    assert done.returncode == 2 and not done.stdout
    assert is_one_line(done.stderr) and said in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no-such-run"], "neither a live run"),
        (["--at", "10:32"], "--at needs a recording"),
        (["/no/such.mcap"], "No such file"),
    ],
)
def test_a_run_that_is_not_there_is_one_clear_line(words, said):
    done = jaxtop_here("plan", *words)
    assert done.returncode == 2 and is_one_line(done.stderr) and said in done.stderr


def test_what_cannot_be_compiled_leaves_the_plan_as_it_was(recording, tmp_path):
    (tmp_path / "jax_ir0001_jit_init_compile.mlir").write_text("module {}")
    done = jaxtop_here("plan", str(recording), "--mesh", "data=8", "--compile", str(tmp_path))
    assert done.returncode == 0 and "data 8" in done.stdout
    assert is_one_line(done.stderr) and "no program jit_train_step in" in done.stderr
    assert done.stderr.endswith("; nothing was compiled\n")


def test_a_run_that_has_not_compiled_a_step_is_one_clear_line(tmp_path):
    done = jaxtop_here("plan", str(recorded(tmp_path / "early.mcap", training())))
    assert done.returncode == 2 and is_one_line(done.stderr)
    assert "train has repeated no step yet; plan it after its first steps" in done.stderr


def test_a_run_without_named_arrays_on_a_mesh_is_one_clear_line(tmp_path):
    done = jaxtop_here("plan", str(recorded(tmp_path / "bare.mcap", well())))
    assert done.returncode == 2 and is_one_line(done.stderr)
    assert "no named array of train lies on a mesh" in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--mesh", "expert=2"), "the demo has the axes data and model"),
        (("--mesh", "model=8"), "model=8 does not divide the demo's heads"),
        (("--mesh", "data=3"), "data must divide the 8 rows"),
        (("--devices", "4"), "give it --mesh or --json"),
        (("some-run",), "give it --mesh or --json"),
        (("--compile", __file__), "give it --mesh or --json"),
    ],
)
def test_what_the_demo_cannot_check_is_one_clear_line(words, says):
    done = jaxtop_here("plan", "--check", *words)
    assert done.returncode == 2 and is_one_line(done.stderr) and says in done.stderr
