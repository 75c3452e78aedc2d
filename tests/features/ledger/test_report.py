"""`jaxtop report` and the screen: what a job spent its time on, from any of its sources."""

import json
import re
import subprocess
from array import array
from html.parser import HTMLParser

import pytest

from jaxtop import wire
from jaxtop.features.ledger import collect, text
from jaxtop.features.ledger.model import Attempt, JobLedger, ProcessLedger, TimeSpent
from jaxtop.store import ledgers
from tests import builders
from tests.builders import NOW
from tests.cases import thorough
from tests.features.web.chromium import PROGRAM
from tests.made import ledgers as made_ledgers
from tests.made.ledgers import SAVED
from tests.played.recordings import written
from tests.stage import line, shown_after
from tests.staged import collectives as staged_collectives
from tests.support import jaxtop_here


def process(*points, index=0, started=0.0, devices=1, **more):
    """A process with points of (time, seconds by kind)."""
    return ProcessLedger(
        f"a{started}{index}",
        f"node{index:02}",
        index,
        devices,
        started,
        tuple(TimeSpent(at, spent) for at, spent in points),
        **more,
    )


def save(at, blocked=0.0, step=None, committed=True):
    begun = round(at * 1000)
    return wire.Save(begun, round(blocked * 1000), begun if committed else None, step, "orbax")


def test_the_kinds_of_a_job_sum_up_to_its_wall_time_times_its_devices():
    one = process((10.0, {"starting": 10.0}), (110.0, {"starting": 10.0, "stepping": 100.0}), devices=4)
    job = JobLedger("train", [Attempt("r", "train", (one,))])
    assert job.spent == {"stepping": 400.0, "starting": 40.0}
    assert job.total == 440.0 and job.goodput == pytest.approx(400 / 440)


def test_how_full_the_input_queue_of_the_worst_process_is():
    def waiting(index, empty, capacity=4):
        queue = wire.InputQueue("threads", 0, capacity, 40, empty, 0)
        return process((10.0, {"stepping": 10.0}), index=index, queue=queue)

    def said(*processes):
        return list(text.queue(JobLedger("train", [Attempt("r", "train", processes)])))

    assert said(process((10.0, {"stepping": 10.0}))) == []
    assert said(waiting(0, 30)) == ["input queue: 0 of 4 batches, empty in 75% of looks"]
    assert said(waiting(0, 4), waiting(1, 30, capacity=None)) == [
        "input queue of process 1 on node01: 0 batches, empty in 75% of looks"
    ]


def test_what_was_done_after_the_last_complete_checkpoint_is_lost_and_the_pause_is_down():
    first = process(
        (10.0, {"starting": 10.0}),
        (70.0, {"starting": 10.0, "stepping": 60.0}),
        (100.0, {"starting": 10.0, "stepping": 80.0, "input": 10.0}),
        saves=(save(60.0, 10.0, 50), save(90.0, committed=False)),
    )
    second = process((220.0, {"starting": 20.0, "stepping": 80.0}), started=120.0, end="ended")
    job = JobLedger("train", [Attempt("b", "train", (second,)), Attempt("a", "train", (first,))])
    assert [each.run for each in job.attempts] == ["a", "b"]
    # From the end of the checkpoint, at 70 s, to the end: 20 s of steps and 10 s of input.
    assert job.spent["lost"] == pytest.approx(30.0)
    assert job.spent["stepping"] == pytest.approx(60.0 + 80.0)
    assert "input" not in job.spent
    assert job.spent["down"] == pytest.approx(20.0)
    assert job.total == pytest.approx(220.0)


def test_a_restart_without_a_checkpoint_before_it_is_not_said_to_have_lost_nothing():
    first = process((100.0, {"stepping": 100.0}))
    second = process((200.0, {"stepping": 90.0}), started=110.0)
    job = JobLedger("train", [Attempt("a", "t", (first,)), Attempt("b", "t", (second,))])
    assert "lost" not in job.spent and job.unknown_losses == 1


def test_hosts_with_which_several_attempts_ended_are_named():
    def attempt(start, bad):
        both = [
            process((start + 100 - 40 * (i == bad), {"stepping": 60.0}), index=i, started=start)
            for i in range(3)
        ]
        return Attempt(f"r{start}", "t", tuple(both))

    job = JobLedger("t", [attempt(0.0, 1), attempt(200.0, 1), attempt(400.0, 2)])
    assert job.culprits() == [("node01", 2)]


def test_the_time_line_has_every_second_once():
    first = process((40.0, {"stepping": 40.0}), saves=(save(30.0),))
    second = process((100.0, {"starting": 10.0, "stepping": 40.0}), started=50.0)
    job = JobLedger("t", [Attempt("a", "t", (first,)), Attempt("b", "t", (second,))])
    parts = job.over_time(10)
    assert [round(sum(each.values()), 6) for each in parts] == [10.0] * 10
    assert parts[3]["lost"] == pytest.approx(10.0) and parts[4]["down"] == pytest.approx(10.0)


def test_a_recording_and_its_run_have_the_same_ledger(tmp_path):
    frames = sorted(made_ledgers.run(saves=(SAVED,)), key=lambda each: each.at)
    written(tmp_path / "run.mcap", frames).finish()
    done = jaxtop_here("report", "--json", tmp_path / "run.mcap")
    assert (done.returncode, done.stderr) == (0, "")
    (job,) = json.loads(done.stdout)["jobs"]
    (live,) = collect.ledgers_of_cluster(builders.folded(frames), NOW)
    assert job["device_seconds"] == pytest.approx(dict(live.spent))
    assert job["device_seconds"]["stepping"] == pytest.approx(2 * 4 * 1500.0)
    assert job["goodput"] == pytest.approx(1500 / 1750, abs=1e-6)
    (checkpoint,) = job["attempts"][0]["processes"][0]["checkpoints"]
    assert (checkpoint["blocked_s"], checkpoint["step"]) == (20.0, 200)


def test_each_message_adds_a_point_to_those_of_before():
    frames = list(builders.well())
    for i in range(1, 2 * wire.MOST_POINTS):
        at_ms = 10_000 * i
        frames.append(
            builders.frame(builders.agent_id(0), wire.Ledger(at_ms, 0, (1000, 0, 0, 0, at_ms - 1000)))
        )
    (job,) = collect.ledgers_of_cluster(builders.folded(frames), NOW)
    (process,) = job.attempts[0].processes
    times = [each.at for each in process.points]
    assert wire.MOST_POINTS / 2 <= len(times) <= wire.MOST_POINTS + 1
    assert times == sorted(set(times)) and times[0] <= 40.0
    assert job.over_time(10)[5] == pytest.approx({"stepping": job.total / 10, "starting": 0.0}, abs=1e-6)


def test_the_first_line_says_what_share_was_productive_and_what_took_most_of_the_rest(tmp_path):
    frames = sorted(made_ledgers.run(), key=lambda each: each.at)
    written(tmp_path / "run.mcap", frames).finish()
    done = jaxtop_here("report", tmp_path / "run.mcap")
    first = done.stdout.splitlines()[0]
    assert first == "train: goodput 85.7%, most of the rest waiting for input (5.1%); 29m10s on 8 devices"
    assert line("steps", done.stdout).split()[:4] == ["steps", "3.33", "h", "85.7%"]


# HTML


def page_of(tmp_path, frames):
    written(tmp_path / "run.mcap", sorted(frames, key=lambda each: each.at)).finish()
    done = jaxtop_here("report", "--html", "-o", tmp_path / "report.html", tmp_path / "run.mcap")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return tmp_path / "report.html"


class Elements(HTMLParser):
    """The elements of a page, and the texts in them."""

    EMPTY = ("meta", "polygon", "polyline", "line")

    def __init__(self, page):
        super().__init__()
        self.names, self.texts, self.open = [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        assert not any(name in ("src", "href") for name, _ in attrs)
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_the_page_is_whole_and_loads_nothing(tmp_path):
    page = Elements(page_of(tmp_path, made_ledgers.run(saves=(SAVED,))).read_text("utf-8"))
    assert page.open == [] and "script" not in page.names
    words = "".join(page.texts)
    assert "train: goodput 85.7%" in words and "waiting for input" in words
    assert page.names.count("polygon") == 7


def test_the_page_has_a_plot_of_each_scalar_that_the_script_reports(tmp_path):
    values = array("f", (2.5, 1.0, 0.5)).tobytes()
    curves = (
        wire.ScalarCurve("lr", 1000, 2000, values[:4]),
        wire.ScalarCurve("<loss>", 1000, 2000, values),
        wire.ScalarCurve("late", 3000, 2000, values[:8]),
    )
    reported = builders.frame(builders.agent_id(0), wire.Curves(9_000, curves))
    page = page_of(tmp_path, [*made_ledgers.run(), reported])
    assert "<loss> 0.5, means from 0.5 to 2.5" in "".join(Elements(page.read_text("utf-8")).texts)
    loss, late = re.findall(r'<polyline [^>]*points="([^"]*)"', page.read_text("utf-8"))
    assert loss == "0.0,1.0 150.0,67.0 300.0,89.0"
    assert late == "150.0,1.0 300.0,89.0", "all plots have the same time"
    done = jaxtop_here("report", "--json", tmp_path / "run.mcap")
    points = json.loads(done.stdout)["jobs"][0]["scalars"]["<loss>"]
    assert [each["value"] for each in points] == [2.5, 1.0, 0.5]
    assert [each["at"] for each in points] == [f"1970-01-01T00:00:0{at}.000Z" for at in (2, 4, 6)]


def test_names_of_others_are_text_on_the_page(tmp_path):
    frames = made_ledgers.run()
    evil = '<script>alert(1)</script>\x1b[31m"&'
    frames = [
        builders.frame(each.agent, builders.hello(int(each.agent, 16), name=evil), each.at)
        if each.kind == "hello"
        else each
        for each in frames
    ]
    page = page_of(tmp_path, frames).read_text("utf-8")
    assert "<script" not in page and "\x1b" not in page
    assert "alert(1)" in "".join(Elements(page).texts)


@pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed (Debian: the package chromium)")
def test_a_browser_shows_the_page_without_an_error(tmp_path):
    page = page_of(tmp_path, made_ledgers.run(saves=(SAVED,)))
    words = (PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile")
    picture = tmp_path / "picture.png"
    done = subprocess.run(
        [*words, "--enable-logging=stderr", f"--screenshot={picture}", page.as_uri()],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "CONSOLE" not in done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_file_that_is_there_is_not_overwritten(tmp_path):
    (tmp_path / "report.html").write_text("mine")
    written(tmp_path / "run.mcap", sorted(made_ledgers.run(), key=lambda each: each.at)).finish()
    done = jaxtop_here("report", "--html", "-o", tmp_path / "report.html", tmp_path / "run.mcap")
    assert done.returncode != 0 and "already exists" in done.stderr
    assert (tmp_path / "report.html").read_text() == "mine"


# Files


WHO = ledgers.LedgerProcess(
    1,
    "job 7",
    "a1",
    round(NOW * 1000),
    "train",
    "node00",
    run="r1",
    process_index=0,
    process_count=1,
    devices=2,
)


def file_of(folder, *contents, who=WHO):
    path = folder / ledgers.file_name(who)
    path.write_bytes(b"".join(map(ledgers.line_of, (who, *contents))))
    return path


def sums(after, end="", **spent):
    return ledgers.Sums(round((NOW + after) * 1000), spent, 10, end)


def test_files_that_were_cut_off_are_read_up_to_there(tmp_path):
    path = file_of(tmp_path, sums(10, starting=10.0), sums(20, starting=10.0, stepping=10.0))
    whole = path.read_bytes()
    for size in range(len(ledgers.line_of(WHO)), len(whole)):
        path.write_bytes(whole[:size])
        (job,), problems = collect.ledgers_of_files([path])
        assert not problems and job.total in (0.0, 20.0, 40.0)
    done = jaxtop_here("report", tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("job 7: goodput")


def test_a_file_that_is_none_is_said_in_one_line(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"at_ms": "never"}\n[1, 2]\n\x00')
    done = jaxtop_here("report", tmp_path / "x.jsonl")
    assert done.returncode not in (0, 1) or done.stderr
    assert "no line names a process" in done.stderr and done.stderr.count("\n") <= 2


def test_old_files_are_removed(tmp_path):
    path = file_of(tmp_path, sums(1, starting=1.0))
    ledgers.tidy(tmp_path, now=path.stat().st_mtime + ledgers.KEPT_S - 60)
    assert path.exists()
    ledgers.tidy(tmp_path, now=path.stat().st_mtime + ledgers.KEPT_S + 60)
    assert not path.exists()


def test_without_a_run_and_without_files_it_says_so(tmp_path):
    done = jaxtop_here("report", "nobody", env={"XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)})
    assert done.returncode != 0 and done.stderr.count("\n") == 1


# The screen


@pytest.mark.parametrize(
    "size", [(60, 16), thorough((80, 24)), thorough((120, 40)), thorough((200, 50)), (250, 80)]
)
def test_the_screen_has_the_verdict_the_kinds_and_the_checkpoints(size):
    shown = shown_after(*made_ledgers.run(saves=(SAVED,)), keys=("H",), size=size)
    assert "train: goodput 85.7%" in shown
    assert "waiting for input" in shown
    if size[1] >= 24:
        assert "a checkpoint, it held up the script for 20.0s" in shown


def test_the_header_has_the_goodput_of_the_run():
    assert "goodput 86%" in shown_after(*made_ledgers.run(), keys=(), size=(200, 50)).splitlines()[0]


def test_before_anything_is_known_the_screen_says_so():
    assert "nothing added up yet" in shown_after(*builders.well(), keys=("H",), size=(80, 24))


def test_where_the_steps_went_is_said_where_somebody_watched(tmp_path):
    frames = [*staged_collectives.late(), *made_ledgers.run()[len(builders.well()) :]]
    (job,) = collect.ledgers_of_cluster(builders.folded(frames), NOW)
    assert sum(job.step_parts.shares.values()) == pytest.approx(1.0, abs=0.01)
    assert job.step_parts.seconds > 30
    assert line("steps of the last", text.to_text(job, NOW)).split(": ")[1].startswith("compute ")
    done = jaxtop_here("report", file_of(tmp_path, sums(9, stepping=9.0)))
    assert done.returncode == 0 and "steps of the last" not in done.stdout
