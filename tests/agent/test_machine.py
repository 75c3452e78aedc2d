"""A container sees its own limits, what nobody counts is unknown, and figures are of what was done."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import PIPE
from types import SimpleNamespace

import psutil
import pytest

from jaxtop_agent.collectors.host import HostFigures
from jaxtop_agent.core.board import SamplerState
from jaxtop_agent.core.threads import cpu_clock
from jaxtop_agent.machine import basics, busy, cgroups, disks, files
from jaxtop_agent.machine.cgroups import CgroupLimits, Groups
from tests.support import PYTHON, ROOT, eventually, processes, script

GIB = 1 << 30
# As proc(5) has them: the mounted root, where, and of what kind.
UNIFIED = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"
OLD = "{number} 31 0:29 {root} /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{name}"


def tree(folder, made, cgroup="0::/\n", mounts=UNIFIED):
    """A machine of 8 cores that has these files of groups, by their path in /sys/fs/cgroup."""
    basis = {
        "proc/self/cgroup": cgroup,
        "proc/self/mountinfo": f"22 27 0:21 / /proc rw - proc proc rw\n{mounts}\n",
        "proc/self/status": "Name:\tpython\nCpus_allowed_list:\t0-7\nMems_allowed_list:\t0\n",
        "proc/meminfo": f"MemTotal:  {64 << 20} kB\nMemFree: 1 kB\nMemAvailable: {48 << 20} kB\n",
        "sys/devices/system/cpu/online": "0-7\n",
    }
    for name, text in {**basis, **{f"sys/fs/cgroup/{name}": text for name, text in made.items()}}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(folder)


def limits(folder, made, cores=8, memory=64 * GIB, **options) -> CgroupLimits:
    return limits_of(Groups(tree(folder, made, **options)), cores, memory)


def limits_of(groups, cores=8, memory=64 * GIB) -> CgroupLimits:
    groups.find_limits(cores, memory)
    return groups.read()


def memory_of(limit, current, dropped):
    return {
        "memory.max": f"{limit}\n",
        "memory.current": f"{current}\n",
        "memory.stat": f"anon 5\nfile 9\nactive_file 3\ninactive_file {dropped}\n",
    }


def in_folder(name, made):
    return {f"{name}/{each}": text for each, text in made.items()}


CPU_STAT = (
    "usage_usec {used}\nuser_usec 1\nnr_periods {periods}\nnr_throttled {held}\nthrottled_usec {for_us}\n"
)


# Limits


@pytest.mark.parametrize(
    ("content", "nanoseconds"),
    [("350958158 18686559 86\n", 18686559), ("0 0 1\n", None), ("", None), ("no numbers here", None)],
)
def test_how_long_the_main_thread_waited_for_a_core(tmp_path, content, nanoseconds):
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "schedstat").write_text(content)
    assert basics.delayed_ns(str(tmp_path)) == nanoseconds
    assert basics.delayed_ns(str(tmp_path / "elsewhere")) is None


def test_a_container_has_its_own_cores_and_memory(tmp_path):
    """As `docker run --cpus 2.5 --memory 4g` on a machine with unified groups."""
    made = {
        "cpu.max": "250000 100000\n",
        "cpu.stat": CPU_STAT.format(used=7_500_000, periods=90, held=30, for_us=1_500_000),
        **memory_of(4 * GIB, 3 * GIB, GIB),
    }
    found = limits(tmp_path, made)
    assert (found.cores, found.used_s) == (2.5, 7.5)
    assert (found.held_s, found.held_periods, found.periods) == (1.5, 30, 90)
    assert (found.memory, found.memory_used) == (4 * GIB, 2 * GIB)  # files read once are dropped first
    assert found.is_container


def test_the_smallest_limit_of_nested_groups_counts_with_what_is_used_of_it(tmp_path):
    """A job of a batch system: its steps may take all of it, and the job's limit is what ends them."""
    made = {
        **in_folder("slurm/job/step/task", {"cpu.max": "max 100000", **memory_of("max", 1, 0)}),
        **in_folder("slurm/job/step", {"cpu.max": "800000 100000", **memory_of(16 * GIB, 2, 0)}),
        **in_folder(
            "slurm/job",
            {
                "cpu.max": "150000 50000",
                "cpu.stat": CPU_STAT.format(used=42_000_000, periods=1, held=0, for_us=0),
                **memory_of(16 * GIB, 9 * GIB, 4 * GIB),
            },
        ),
        **in_folder("slurm", {"cpu.max": "max 100000", **memory_of("max", 20 * GIB, 0)}),
    }
    found = limits(tmp_path, made, cgroup="0::/slurm/job/step/task\n")
    assert (found.cores, found.used_s) == (3.0, 42.0)
    assert (found.memory, found.memory_used) == (16 * GIB, 5 * GIB)


@pytest.mark.parametrize(
    "made",
    [
        {},
        {"cpu.max": "max 100000\n", **memory_of("max", 5, 1)},
        {"cpu.max": "800000 100000\n", **memory_of(64 * GIB, 5, 1)},  # all of the machine is no limit
        {"cpu.max": "\x00\xff", "memory.max": "-4096\n", "cpuset.cpus.effective": "0-7"},
        {"cpu.max": "100000 0", "memory.max": "9" * 400, "cpuset.cpus.effective": "7-0,x"},
        {"cpu.max": "", "memory.max": "", "cpuset.cpus.effective": "\n"},
    ],
)
def test_without_a_limit_the_machine_is_the_machine(tmp_path, made):
    assert not limits(tmp_path, made).is_container


@pytest.mark.parametrize("cgroup", ["", "garbage", "0:", "0::relative", "x" * 100_000, "0::/../../other"])
def test_paths_that_make_no_sense_lead_to_no_other_group(tmp_path, cgroup):
    """Who is outside of the mounted groups is told a path with `..`; what is mounted holds for it."""
    made = {"other/cpu.max": "100000 100000"}
    assert not limits(tmp_path / "inner", made, cgroup=cgroup).is_container
    assert not limits_of(Groups(str(tmp_path / "nothing"))).is_container


def test_fewer_cpus_are_a_limit_too(tmp_path):
    """As `docker run --cpuset-cpus`; a quota beside it that is smaller counts more."""
    stat = CPU_STAT.format(used=2_000_000, periods=0, held=0, for_us=0)
    few = {"cpuset.cpus.effective": "0,2-3\n", "cpu.stat": stat}
    assert limits(tmp_path, few)[:2] == (3.0, 2.0)
    assert limits(tmp_path, {**few, "cpu.max": "400000 100000"})[:2] == (3.0, 2.0)
    assert limits(tmp_path, {**few, "cpu.max": "50000 100000"})[:2] == (0.5, 2.0)


OLD_GROUPS = "4:memory:/docker/abc\n3:cpuset:/docker/abc\n2:cpu,cpuacct:/docker/abc\n0::/docker/abc\n"


def old_mounts(root):
    return "\n".join(
        OLD.format(number=40 + i, root=root, name=name)
        for i, name in enumerate(("cpu,cpuacct", "memory", "cpuset"))
    )


def old_files(below=""):
    return {
        f"cpu,cpuacct{below}/cpu.cfs_quota_us": "50000\n",
        f"cpu,cpuacct{below}/cpu.cfs_period_us": "100000\n",
        f"cpu,cpuacct{below}/cpuacct.usage": "3500000000\n",
        f"cpu,cpuacct{below}/cpu.stat": "nr_periods 8\nnr_throttled 2\nthrottled_time 250000000\n",
        f"cpuset{below}/cpuset.cpus": "0-3\n",
        f"memory{below}/memory.limit_in_bytes": f"{8 * GIB}\n",
        f"memory{below}/memory.usage_in_bytes": f"{5 * GIB}\n",
        f"memory{below}/memory.stat": "inactive_file 3\nhierarchical_memory_limit {limit}\n"
        f"total_inactive_file {GIB}\n",
    }


@pytest.mark.parametrize(("root", "below"), [("/", "/docker/abc"), ("/docker/abc", "")])
def test_old_groups_say_the_same_seen_from_outside_and_from_inside(tmp_path, root, below):
    """In a container its own group is mounted, while the process is told its path on the machine."""
    made = {name: text.replace("{limit}", str(8 * GIB)) for name, text in old_files(below).items()}
    found = limits(tmp_path, made, cgroup=OLD_GROUPS, mounts=old_mounts(root))
    assert (found.cores, found.used_s) == (0.5, 3.5)
    assert (found.held_s, found.held_periods, found.periods) == (0.25, 2, 8)
    assert (found.memory, found.memory_used) == (8 * GIB, 4 * GIB)


def test_a_limit_above_the_mounted_group_is_read_in_version_1_of_control_groups(tmp_path):
    made = {name: text.replace("{limit}", str(6 * GIB)) for name, text in old_files().items()}
    found = limits(tmp_path, made, cgroup=OLD_GROUPS, mounts=old_mounts("/docker/abc"))
    assert found.memory == 6 * GIB


def written(name):
    """What Linux wrote into this `memory.stat`; where the files are from stands beside them."""
    return (ROOT / "tests/data/cgroups" / f"{name}.stat").read_text()


def test_the_parts_of_memory_are_those_of_real_groups_of_version_2(tmp_path):
    """The kernel counts shared memory among files: 6,502,666,240 - 6,721,536 bytes are files."""
    made = {
        "memory.max": "8589934592\n",
        "memory.current": "7730941132\n",
        "memory.stat": written("version-2"),
    }
    found = limits(tmp_path, made)
    assert found.memory_used == 7730941132 - 5307346944
    assert found.memory_parts == (790425600, 6495944704, 6721536)


@pytest.mark.parametrize(
    ("name", "inactive", "parts"),
    [
        ("version-1", 1531834368, (996831232, 4047540224, 9166848)),  # with the groups inside
        ("version-1-old", 7003344896, (1930993664, None, None)),  # shared memory counts as files
    ],
)
def test_the_parts_of_memory_are_those_of_real_groups_of_version_1(tmp_path, name, inactive, parts):
    made = {
        "memory/memory.limit_in_bytes": f"{16 * GIB}\n",
        "memory/memory.usage_in_bytes": f"{13 * GIB}\n",
        "memory/memory.stat": written(name),
    }
    found = limits(tmp_path, made, cgroup="4:memory:/docker/abc\n", mounts=old_mounts("/docker/abc"))
    assert (found.memory, found.memory_used) == (16 * GIB, 13 * GIB - inactive)
    assert found.memory_parts == parts


def test_the_parts_of_a_container_go_before_those_of_the_machine(tmp_path):
    made = {
        "memory.max": "8589934592\n",
        "memory.current": "7730941132\n",
        "memory.stat": written("version-2"),
    }
    sample, _ = twice(tree(tmp_path, made), lambda: None, wait=0.01)
    parts = (sample.machine_anonymous_bytes, sample.machine_file_bytes, sample.machine_shared_bytes)
    assert parts == (790425600, 6495944704, 6721536)
    unlimited = {**made, "memory.max": "max\n"}
    root = tree(tmp_path / "machine", unlimited)
    with (tmp_path / "machine/proc/meminfo").open("a") as file:
        file.write("AnonPages: 30 kB\nCached: 20 kB\nShmem: 5 kB\nBuffers: 2 kB\n")
    sample, _ = twice(root, lambda: None, wait=0.01)
    parts = (sample.machine_anonymous_bytes, sample.machine_file_bytes, sample.machine_shared_bytes)
    assert parts == (30 << 10, 17 << 10, 5 << 10)


def test_old_groups_without_a_limit_are_no_container(tmp_path):
    """Their "no limit" is a number near 2^63, and -1."""
    made = {
        "cpu/cpu.cfs_quota_us": "-1",
        "cpu/cpu.cfs_period_us": "100000",
        "memory/memory.limit_in_bytes": "9223372036854771712",
        "memory/memory.stat": "hierarchical_memory_limit 9223372036854771712\n",
    }
    mounts = "\n".join(OLD.format(number=i, root="/", name=name) for i, name in ((40, "cpu"), (41, "memory")))
    assert not limits(tmp_path, made, cgroup="2:memory:/\n1:cpu:/\n", mounts=mounts).is_container


def test_groups_are_looked_up_again_once_the_process_is_in_others(tmp_path):
    """Batch systems put a process into its job after it has started."""
    root = tree(tmp_path, {"job/cpu.max": "100000 100000"})
    groups = Groups(root)
    assert not limits_of(groups).is_container
    (tmp_path / "proc/self/cgroup").write_text("0::/job\n")
    assert limits_of(groups).cores == 1.0


# The collector


def board(*, is_watched=True):
    return SimpleNamespace(sampler=SamplerState(), is_watched=is_watched)


def twice(root, change, wait=0.2):
    """The figures between two readings, and the seconds between them."""
    collector, here = HostFigures(lambda: (), root), board()
    collector.collect(here, None)
    first, started = here.sampler.host, time.monotonic()
    assert first.machine_cpu_permille is None and first.cpu_pressure_permille is None
    time.sleep(wait)
    change()
    collector.collect(here, None)
    return here.sampler.host, time.monotonic() - started


def test_a_container_is_measured_by_its_own_limits_and_pressure(tmp_path):
    psi = "some avg10=99.00 avg60=9.00 avg300=9.00 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"
    stat = CPU_STAT.format(used=0, periods=10, held=5, for_us=0)
    made = {
        "cpu.max": "200000 100000\n",
        "cpu.stat": stat,
        "cpu.pressure": psi.format(1000),
        "io.pressure": psi.format(5),
        **memory_of(4 * GIB, 3 * GIB, GIB),
    }
    root = tree(tmp_path, made)
    tree(tmp_path / "later", {})

    def later():
        used = CPU_STAT.format(used=200_000, periods=20, held=10, for_us=60_000)
        tree(tmp_path, {"cpu.stat": used, "cpu.pressure": psi.format(51_000)})

    sample, elapsed = twice(root, later)
    assert (sample.cores_milli, sample.is_container) == (2000, True)
    assert (sample.memory_used_bytes, sample.memory_total_bytes) == (2 * GIB, 4 * GIB)
    assert sample.machine_cpu_permille == pytest.approx(0.2 / elapsed / 2 * 1000, rel=0.2)
    assert sample.cpu_pressure_permille == pytest.approx(0.05 / elapsed * 1000, rel=0.2)
    assert sample.held_back_permille == pytest.approx(0.06 / elapsed * 1000, rel=0.2)
    assert (sample.io_pressure_permille, sample.memory_pressure_permille) == (0, None)


def test_what_the_kernel_holds_back_on_all_cores_together_is_no_more_than_the_periods(tmp_path):
    made = {"cpu.max": "200000 100000", "cpu.stat": CPU_STAT.format(used=0, periods=0, held=0, for_us=0)}

    def later():
        tree(tmp_path, {"cpu.stat": CPU_STAT.format(used=1, periods=20, held=15, for_us=9_000_000)})

    sample, _ = twice(tree(tmp_path, made), later)
    assert sample.held_back_permille == 750


def test_where_the_kernel_tells_nothing_all_of_it_is_unknown(tmp_path):
    """As on a Mac: no file is there."""
    sample, _ = twice(str(tmp_path), lambda: None, wait=0.01)
    unknown = ("cpu_pressure", "memory_pressure", "io_pressure", "held_back")
    assert {getattr(sample, f"{name}_permille") for name in unknown} == {None}
    moved = ("disk_read", "disk_written", "process_read", "process_written")
    assert {getattr(sample, f"{name}_bytes_per_s") for name in moved} == {None}
    network = (sample.received_bytes_per_s, sample.sent_bytes_per_s)
    memory = (sample.memory_used_bytes, sample.memory_total_bytes, sample.rss_bytes)
    assert {*network, *memory, sample.threads, sample.machine_cpu_permille} == {None}
    assert not sample.is_container and sample.cores_milli == os.cpu_count() * 1000


def test_a_counter_that_begins_anew_is_unknown_for_once(tmp_path):
    root = tree(tmp_path, {})
    (tmp_path / "proc/self/io").write_text("rchar: 9\nread_bytes: 4096\nwrite_bytes: 9000\n")

    def later():
        (tmp_path / "proc/self/io").write_text("rchar: 9\nread_bytes: 8192\nwrite_bytes: 1\n")

    sample, elapsed = twice(root, later)
    assert sample.process_written_bytes_per_s is None
    assert sample.process_read_bytes_per_s == pytest.approx(4096 / elapsed, rel=0.2)


def test_a_process_that_chose_fewer_cpus_has_fewer_cores_and_is_in_no_container(tmp_path):
    root = tree(tmp_path, {})
    (tmp_path / "proc/self/status").write_text("Name:\tx\nCpus_allowed_list:\t0-1,7\n")
    sample, _ = twice(root, lambda: None, wait=0.01)
    assert (sample.cores_milli, sample.is_container) == (3000, False)


# Single readings


def test_memory_cpu_network_and_size_are_read_as_the_kernel_writes_them(tmp_path):
    root = tree(tmp_path, {})
    (tmp_path / "proc/stat").write_text("cpu  100 0 50 800 50 0 0 0 70 0\ncpu0 1 1 1 1\n" + "intr 1 " * 999)
    (tmp_path / "proc/self/stat").write_text(f"7 (odd) name) {'S ' + '5 ' * 16} 33 0 9 0 12 99\n")
    (tmp_path / "proc/self/net").mkdir()
    (tmp_path / "proc/self/net/dev").write_text(
        "Inter-| Receive | Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes\n"
        "    lo:  10 1 0 0 0 0 0 0 10 1 0 0 0 0 0 0\n  eth0:5000 1 0 0 0 0 0 0 70 1 0 0 0 0 0 0\n"
    )
    assert basics.memory(root)[:2] == (64 * GIB, 16 * GIB)
    assert basics.cpu(root) == (150, 1000)
    assert basics.network(root) == (5010, 80)
    assert basics.process(root) == (12 * basics.PAGE, 33)


def test_the_memory_left_is_that_of_the_container_or_of_the_machine_if_that_is_less(tmp_path):
    assert cgroups.memory_left(tree(tmp_path / "none", {})) == 48 * GIB
    assert cgroups.memory_left(tree(tmp_path / "small", memory_of(4 * GIB, 3 * GIB, GIB))) == 2 * GIB
    assert cgroups.memory_left(tree(tmp_path / "full", memory_of(GIB, 2 * GIB, 0))) == 0
    assert cgroups.memory_left(tree(tmp_path / "large", memory_of(60 * GIB, GIB, 0))) == 48 * GIB
    assert cgroups.memory_left(str(tmp_path / "unknown")) is None


def test_memory_that_makes_no_sense_is_unknown(tmp_path):
    """As where a container is shown a total of its own, and what is free on all of the machine."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 1000 kB\nMemAvailable: 9000 kB\n")
    assert basics.memory(str(tmp_path))[:2] == (1_024_000, None)


def test_of_disks_only_those_with_hardware_count(tmp_path):
    """A partition, a loop and a mapped device would count the same bytes once more."""
    line = "{} 0 {} 1 0 {} 1 1 0 {} 1 0 1 1\n"
    said = "".join(
        line.format(8 + i, name, *sectors)
        for i, (name, sectors) in enumerate(
            {"sda": (10, 20), "sda1": (9, 19), "nvme0n1": (5, 6), "loop0": (7, 7), "dm-0": (10, 20)}.items()
        )
    )
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/diskstats").write_text(said + "garbage\n8 0 sda x y z\n")
    for name in ("sda/device", "nvme0n1/device", "loop0", "dm-0"):
        (tmp_path / "sys/block" / name).mkdir(parents=True)
    assert disks.Disks(str(tmp_path)).read() == (15 * 512, 26 * 512)
    assert disks.Disks(str(tmp_path / "none")).read() == (None, None)


def test_pressure_is_the_machines_where_groups_have_none(tmp_path):
    (tmp_path / "proc/pressure").mkdir(parents=True)
    (tmp_path / "proc/pressure/cpu").write_text("some avg10=1.00 avg60=1.00 avg300=1.00 total=2500000\n")
    (tmp_path / "proc/pressure/io").write_text("\x00some total=\n")
    assert basics.waits(("/nowhere",), str(tmp_path)) == (2.5, None, None)


def test_files_are_read_to_a_bound_in_whole_lines(tmp_path):
    endless = tmp_path / "endless"
    endless.write_text("a 12345\n" * 10_000)
    said = files.text(str(endless), 100)
    assert len(said) < 100 and set(said.splitlines()) == {"a 12345"}
    assert files.text(str(tmp_path)) is files.text("/proc/self/mem", 10) is None  # a folder, and what refuses
    assert files.numbers("a 1\nb -1\nc max\nd\n e 5") == {"a": 1}
    assert [files.count(text) for text in ("0-3,8\n", "5", "", "3-1", "x", "0-")] == [
        5,
        1,
        None,
        None,
        None,
        None,
    ]


# The machine as it is


def test_the_busiest_threads_are_named_and_our_own_are_not(monkeypatch):
    monkeypatch.setattr(busy, "READ_INTERVAL_S", 0.5)
    stop, ready = threading.Event(), threading.Barrier(3)
    natives = {}

    def work(seconds):
        natives[threading.current_thread().name] = threading.get_native_id()
        ready.wait()
        while not stop.is_set():
            until = time.thread_time() + seconds
            while time.thread_time() < until:
                pass
            time.sleep(0.01)

    for name in ("loader", "ours"):
        threading.Thread(target=work, args=(0.02,), name=name).start()
    try:
        ready.wait()
        threads = busy.BusyThreads(lambda: {natives["ours"]})
        assert threads.look() == ()
        before = cpu_clock(natives["loader"])
        eventually(
            lambda: cpu_clock(natives["loader"]) - before > 3 * busy.MIN_CORE_SHARE * busy.READ_INTERVAL_S,
            every=0.05,
        )
        # As if it had taken no longer: the machine may be busy with other tests.
        threads._before = (time.monotonic() - busy.READ_INTERVAL_S, threads._before[1])
        found = {each.name: each for each in threads.look()}
    finally:
        stop.set()
    assert "ours" not in found
    assert found["loader"].is_python and found["loader"].cpu_permille > 1000 * busy.MIN_CORE_SHARE


WORKER = """
    import os, threading, time
    from jaxtop_agent.collectors.host import HostFigures
    from jaxtop_agent.core.board import SamplerState
    from types import SimpleNamespace
    import json, psutil

    board = SimpleNamespace(sampler=SamplerState(), is_watched=True)
    figures = HostFigures(lambda: ())
    print("ready", flush=True)
    while not os.path.exists("go"):
        time.sleep(0.01)
    figures.collect(board, None)
    network, times = psutil.net_io_counters(), psutil.cpu_times()
    before, started = psutil.Process().io_counters(), time.monotonic()
    cpu = time.process_time()

    def burn():
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            pass

    burner = threading.Thread(target=burn, name="burner")
    burner.start()
    with open("written", "wb") as file:
        for _ in range(20):
            file.write(bytes(100_000))
            os.fsync(file.fileno())
    burner.join()
    while psutil.Process().num_threads() > 1:  # the kernel's thread ends a little later
        time.sleep(0.001)
    elapsed, after = time.monotonic() - started, psutil.Process().io_counters()
    cpu = time.process_time() - cpu
    figures._busy._before = (figures._busy._before[0] - 10, figures._busy._before[1])
    figures.collect(board, None)
    sample = board.sampler.host
    later, network_later = psutil.cpu_times(), psutil.net_io_counters()
    total = sum(later[:8]) - sum(times[:8])
    idle = later.idle + later.iowait - times.idle - times.iowait
    memory = psutil.virtual_memory()
    print(json.dumps({
        "rss": (sample.rss_bytes, psutil.Process().memory_info().rss),
        "threads": (sample.threads, psutil.Process().num_threads()),
        "busy": (sample.machine_cpu_permille, 1000 * (total - idle) / total),
        "received": (sample.received_bytes_per_s, (network_later.bytes_recv - network.bytes_recv) / elapsed),
        "used": (sample.memory_used_bytes, memory.total - memory.available),
        "cpu": (sample.process_cpu_permille, cpu / elapsed * 1000),
        "written": (sample.process_written_bytes_per_s,
                    (after.write_bytes - before.write_bytes) / elapsed),
        "machine": sample.machine_cpu_permille,
        "cores": sample.cores_milli,
        "is_container": sample.is_container,
        "held_back": sample.held_back_permille,
        "pressure": sample.cpu_pressure_permille,
        "disk": sample.disk_written_bytes_per_s,
        "memory": (sample.memory_used_bytes, sample.memory_total_bytes),
    }), flush=True)
"""


def worked(folder, prepare=lambda _: None):
    """What a process says of itself that burns CPU and writes 2 MB; `prepare` is given its pid before."""
    with processes([PYTHON, script(folder, WORKER)], stdout=PIPE, cwd=folder) as (process,):
        assert process.stdout.readline() == "ready\n"
        prepare(process.pid)
        (folder / "go").touch()
        return json.loads(process.stdout.readline())


@pytest.mark.skipif(sys.platform != "linux", reason="what is compared with is in /proc")
def test_readings_of_the_real_machine_agree_with_psutil(tmp_path):
    """A process burns a core and writes to its disk; its own clocks and psutil say how much that was."""
    said = worked(tmp_path)
    assert said["cpu"][0] == pytest.approx(said["cpu"][1], rel=0.15)
    assert said["written"][0] == pytest.approx(said["written"][1], rel=0.15)
    if not said["is_container"]:
        assert said["cores"] == len(os.sched_getaffinity(0)) * 1000
        assert said["memory"][1] == psutil.virtual_memory().total
        assert said["busy"][0] == pytest.approx(said["busy"][1], rel=0.1)
        assert said["used"][0] == pytest.approx(said["used"][1], rel=0.1)
    assert said["rss"][0] == pytest.approx(said["rss"][1], rel=0.05)
    assert said["threads"][0] == said["threads"][1]
    assert said["received"][0] == pytest.approx(said["received"][1], rel=0.2, abs=5000)


@contextmanager
def a_group(cores):
    """A group of the kernel that may use so many cores; yields what puts a process into it."""
    unified = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    name = f"jaxtop-test-{os.getpid()}"
    tops = [Path("/sys/fs/cgroup") / each for each in ([""] if unified else ["cpu", "cpuacct"])]
    made = []
    try:
        try:
            for top in {each.resolve() for each in tops}:
                (top / name).mkdir()
                made.append(top / name)
            if unified:
                (made[0] / "cpu.max").write_text(f"{round(cores * 1e5)} 100000")
            else:
                (tops[0] / name / "cpu.cfs_period_us").write_text("100000")
                (tops[0] / name / "cpu.cfs_quota_us").write_text(f"{round(cores * 1e5)}")
        except OSError as error:
            pytest.skip(f"no group can be made here: {error}")

        def put(pid):
            for group in made:
                (group / "cgroup.procs").write_text(str(pid))

        yield put
    finally:
        for group in made:
            with suppress(OSError):
                eventually(lambda group=group: not (group / "cgroup.procs").read_text())
                group.rmdir()


@pytest.mark.skipif(sys.platform != "linux", reason="groups are Linux's")
def test_a_process_in_a_real_control_group_reports_that_it_is_held_back(tmp_path):
    with a_group(0.03) as put:  # so little that a busy machine gives it, too
        said = worked(tmp_path, put)
    assert (said["cores"], said["is_container"]) == (30, True)
    assert said["machine"] > 700  # of its share of a core
    assert said["cpu"][0] < 300
    assert 50 < said["held_back"] <= 1000
