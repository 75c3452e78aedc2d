"""Hosts as clusters name them become single names; what cannot be read is said in a line."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from jaxtop.base import hostnames
from jaxtop.base.hostnames import MOST_HOSTS, BadHosts, expand, hosts_in_file, hosts_of_job
from jaxtop.sources import discovery
from tests.support import jaxtop


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("node01", ["node01"]),
        ("node[01-04,07]", ["node01", "node02", "node03", "node04", "node07"]),
        ("node[9-11]", ["node9", "node10", "node11"]),
        ("node[008-010]", ["node008", "node009", "node010"]),
        ("a[1-2],b,c[3]:7411", ["a1", "a2", "b", "c3:7411"]),
        ("r[1-2]n[01-02].hpc", ["r1n01.hpc", "r1n02.hpc", "r2n01.hpc", "r2n02.hpc"]),
        ("[fd00::1]:7410", ["[fd00::1]:7410"]),
        ("a,b[1],a,b1", ["a", "b1"]),
        ("", []),
    ],
)
def test_ranges_name_each_host(text, hosts):
    assert expand(text) == hosts


@pytest.mark.parametrize(
    "text",
    [
        *("n[4-1]", "n[1,,2]", "n[-3]", f"n[0-{MOST_HOSTS}]", "n[0-999]m[0-999]", "n[0-99999999999]"),
        *("n" + "[0-9999]" * 20_000, "n[0-9999],m[0-9999]", f"n[{'1' * 5000}]", f"n[1-{'1' * 5000}]"),
    ],
    ids=lambda text: text[:20],
)
def test_impossible_ranges_are_a_line(text):
    with pytest.raises(BadHosts, match=r"is not a range|more than") as error:
        expand(text)
    assert "\n" not in str(error.value) and len(str(error.value)) < 200


def test_a_host_file_has_a_list_per_line(tmp_path):
    file = tmp_path / "hosts"
    file.write_text("# two racks\nnode[01-02] slots=8\n\nlogin\nnode02\n")
    assert hosts_in_file(str(file)) == ["node01", "node02", "login"]


def test_the_lines_of_a_host_file_share_one_bound(tmp_path):
    file = tmp_path / "hosts"
    file.write_text("".join(f"n[1-9999]m{i}\n" for i in range(10_000)))
    with pytest.raises(BadHosts, match="more than"):
        hosts_in_file(str(file))
    file.write_text("n[1-9999]\n" * 10_000)  # PBS names a node once per core
    assert len(hosts_in_file(str(file))) == 9999


def test_without_a_run_the_hosts_of_the_job_are_tried(tmp_path, monkeypatch):
    shown = []
    monkeypatch.setenv("SLURM_JOB_NODELIST", "127.0.0.1,not..a..name")
    assert [seed.target for seed in discovery.seeds([], None, shown.append)] == ["127.0.0.1"]
    assert len(shown) == 1 and "trying 1 of the 2 hosts of SLURM_JOB_NODELIST" in shown[0]
    for name, value in (("SLURM_JOB_NODELIST", "n[2-1]"), ("PBS_NODEFILE", str(tmp_path / "none"))):
        shown.clear()
        monkeypatch.setenv(name, value)
        with pytest.raises(discovery.NoTarget, match="no live run of yours"):
            discovery.seeds([], None, shown.append)
        assert len(shown) == 1 and shown[0].startswith(name)
        monkeypatch.delenv(name)


def test_a_run_may_have_a_name_like_a_list():
    hello = SimpleNamespace(name="lr[1-2]", run="r", agent="a", family="")
    found = [SimpleNamespace(hello=hello)]
    assert discovery._names("lr[1-2]", found) == ["lr[1-2]"]
    assert discovery._names("node[1-2]", found) == ["node1", "node2"]


def test_the_variables_of_schedulers_name_the_hosts(tmp_path):
    file = tmp_path / "nodes"
    file.write_text("n1\nn1\nn2\n")
    assert hosts_of_job({}) is None
    assert hosts_of_job({"SLURM_JOB_NODELIST": "gpu[1-2],big"}) == (
        "SLURM_JOB_NODELIST",
        ["gpu1", "gpu2", "big"],
    )
    assert hosts_of_job({"TPU_WORKER_HOSTNAMES": "t1n-0,t1n-1"}) == (
        "TPU_WORKER_HOSTNAMES",
        ["t1n-0", "t1n-1"],
    )
    assert hosts_of_job({"PBS_NODEFILE": str(file)}) == ("PBS_NODEFILE", ["n1", "n2"])


def test_wrong_lists_are_one_line_for_the_user(tmp_path):
    for words in (["snapshot", "node[3-1]"], ["snapshot", "--hostfile", tmp_path / "none"]):
        done = jaxtop(*words)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    large = tmp_path / "large"
    large.write_text("x" * (hostnames.MOST_OF_HOSTFILE + 1))
    with pytest.raises(BadHosts, match=hostnames.MOST_HOSTFILE):
        hosts_in_file(str(large))
