"""Real processes that leak in one way each: the finding names what holds the memory."""

from __future__ import annotations

import json
import os
import sys
import time
from subprocess import PIPE
from types import SimpleNamespace

import pytest

from jaxtop.model import Severity
from jaxtop_agent.collectors.host import HostFigures
from jaxtop_agent.core.board import SamplerState
from jaxtop_agent.machine import basics, holders
from tests.staged.memory import MIB, Run
from tests.support import PYTHON, processes, run, script

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what is read is in /proc")
# How many samples each process takes, and the seconds between two of them as the viewer sees them.
SAMPLES, EVERY = 24, 5

# Each way takes 4 MiB a turn or more.
LEAKS = """
    import ctypes, json, mmap, subprocess, sys
    from types import SimpleNamespace

    import msgspec
    from jaxtop_agent.collectors.host import HostFigures
    from jaxtop_agent.core.board import SamplerState
    from jaxtop_agent.machine import holders

    way, file, samples = sys.argv[1], sys.argv[2], int(sys.argv[3])
    SIZE, MIB = 4 << 20, 1 << 20
    libc, kept = ctypes.CDLL(None), []
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.realloc.restype, libc.realloc.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t]

    def allocated(size):
        block = libc.malloc(size)
        ctypes.memset(block, 1, size)
        return block

    def malloc(turn):
        kept.extend(allocated(64 * 1024) for _ in range(64))

    def free(turn):
        # What is cut from the end of each block is free, and too small for the blocks of later turns.
        for block in [allocated(64 * 1024 + 1024 * turn) for _ in range(128)]:
            libc.realloc(block, 64)

    def mapped(turn):
        kept.append(mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        kept[-1].write(bytes(SIZE))

    def shared(turn):
        from multiprocessing.shared_memory import SharedMemory

        kept.append(SharedMemory(create=True, size=SIZE))
        kept[-1].buf[:] = bytes(SIZE)

    def child(turn):
        if not kept:
            code = "import sys; kept = [(b'x' * 4194304, print(flush=True)) for _ in sys.stdin]"
            kept.append(subprocess.Popen(
                [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        print(file=kept[0].stdin, flush=True)
        kept[0].stdout.readline()

    def files(turn):
        if not kept:
            with open(file, "rb") as opened:
                kept.append(mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ))
        sum(kept[0][turn * SIZE:(turn + 1) * SIZE:4096])

    def read(turn):
        with open(file, "rb") as opened:
            opened.seek(turn * SIZE)
            opened.read(SIZE)

    def nothing(turn):
        pass

    holders.CHILDREN_EVERY, holders.MAX_CORE_SHARE = 0.0, 1e9
    collector = HostFigures(lambda: ())
    board = SimpleNamespace(sampler=SamplerState(), is_watched=False)
    for turn in range(samples):
        globals()[way](turn)
        collector.collect(board, None)
        print(json.dumps(msgspec.structs.asdict(board.sampler.host)), flush=True)
    for each in kept:
        if way == "shared":
            each.close(), each.unlink()
        elif way == "child":
            each.communicate()
"""


def run_of(folder, way):
    """A run whose processes report what a real one reported that leaked in this way."""
    large = folder / "large"
    with large.open("wb") as file:
        file.truncate(SAMPLES * 4 * MIB)
    words = [PYTHON, script(folder, LEAKS), way, large, SAMPLES]
    with processes([str(each) for each in words], stdout=PIPE) as (process,):
        out, _ = process.communicate()
    samples = [json.loads(line) for line in out.splitlines()]
    assert len(samples) == SAMPLES
    names = [
        name for name in samples[0] if name.startswith(("rss_", "locked", "pinned", "malloc_", "children"))
    ]

    def of(second):
        return samples[min(second // EVERY, SAMPLES - 1)]

    return Run().live(
        SAMPLES * EVERY,
        rss=lambda second, _: of(second)["rss_bytes"],
        parts=lambda second: {name: of(second)[name] for name in names if name != "rss_bytes"},
    )


@pytest.mark.parametrize(
    ("way", "words", "column"),
    [
        ("malloc", "blocks of malloc in use", "malloc_used_bytes"),
        ("free", "malloc arenas that are free but held", "malloc_free_bytes"),
        ("mapped", "anonymous memory outside malloc (mmap)", "rss_anonymous_bytes"),
        ("shared", "shared memory", "rss_shared_bytes"),
        ("child", "child processes", "children_anonymous_bytes"),
    ],
)
def test_what_a_leaking_process_holds_is_named(tmp_path, way, words, column):
    if holders._mallinfo() is None and way in {"malloc", "free", "mapped"}:
        pytest.skip("malloc is not glibc's, or older than 2.33")
    found = run_of(tmp_path, way).found("host_memory_growth")
    assert found is not None and f": {words}; machine full in" in found.text
    assert " MiB a minute, " in found.text and " KiB a step" in found.text and len(found.text) <= 130
    assert found.proof.column == column and found.advice


def test_mapped_files_are_no_leak(tmp_path):
    if "tmpfs" in run("stat", "-f", "-c", "%T", tmp_path).stdout:
        pytest.skip("files in memory are shared memory")
    found = run_of(tmp_path, "files").found("host_memory_growth")
    assert found is not None and found.text.endswith(": file cache, which the kernel takes back: no leak")
    assert found.severity is Severity.INFO and found.cost.minutes_until_full is None


@pytest.mark.parametrize("way", ["read", "nothing"])
def test_a_process_that_reads_files_or_does_nothing_grows_by_nothing(tmp_path, way):
    assert run_of(tmp_path, way).found("host_memory_growth") is None


# Single readings


def test_pages_are_read_by_kind(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/status").write_text(
        "Name:\tRssAnon: 7 kB\nVmLck:\t       4 kB\nVmPin:\t 8 kB\nVmRSS:\t 60 kB\nRssAnon:\t 10 kB\n"
        "RssFile:\t 20 kB\nRssShmem:\t 30 kB\n"
    )
    assert holders.pages(str(tmp_path)) == (10 * 1024, 20 * 1024, 30 * 1024, 4 * 1024, 8 * 1024)


def test_where_the_kernel_says_nothing_all_holders_are_unknown(tmp_path):
    board = SimpleNamespace(sampler=SamplerState(), is_watched=False)
    HostFigures(lambda: (), str(tmp_path)).collect(board, None)
    names = (
        "rss",
        "locked",
        "pinned",
        "malloc",
        "children",
        "machine_anon",
        "machine_file",
        "machine_shared",
    )
    sample = board.sampler.host
    assert {getattr(sample, each) for each in sample.__struct_fields__ if each.startswith(names)} == {None}


def test_children_are_counted_with_their_own_children(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: 5)
    root = tmp_path / "proc"
    tree = {"self/task/5": "7 8\n", "7/task/7": "9 \n", "8/task/8": ""}
    for place, children in tree.items():
        (root / place).mkdir(parents=True)
        (root / place / "children").write_text(children)
    (root / "9").mkdir()
    for process, statm in {7: "90 10 4 1 0 1 0", 8: "0 0 0 0 0 0 0", 9: "90 20 5 1 0 1 0"}.items():
        (root / str(process) / "statm").write_text(statm)
    found = holders.Children(str(tmp_path)).read()
    assert found == (2, 30 * basics.PAGE, 21 * basics.PAGE)  # one has ended, and nobody waited for it


def test_more_children_than_can_be_looked_at_are_unknown(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: 5)
    place = tmp_path / "proc/self/task/5"
    place.mkdir(parents=True)
    (place / "children").write_text(" ".join(map(str, range(6, 6 + holders.MOST_CHILDREN + 1))))
    assert holders.Children(str(tmp_path)).read() == (None, None, None)


def test_malloc_is_left_alone_while_asking_it_takes_long(monkeypatch):
    answers = iter([0.0, 1.0, 0.0, 1.0])
    monkeypatch.setattr(time, "thread_time", lambda: next(answers))
    monkeypatch.setattr(holders, "MAX_CORE_SHARE", 1e9)
    monkeypatch.setattr(holders, "_mallinfo", lambda: lambda: holders.MallocBytes(1, 2, 3))
    malloc = holders.Malloc()
    assert malloc.read() == (1, 2, 3)  # the first may have been slow by chance
    assert malloc.read() == malloc.read() == (None, None, None)


def test_the_parts_of_a_machines_memory_count_shared_memory_once(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text(
        "MemTotal: 1000 kB\nMemAvailable: 600 kB\nBuffers: 5 kB\nCached: 300 kB\nAnonPages: 90 kB\n"
        "Shmem: 40 kB\n"
    )
    assert basics.memory(str(tmp_path)).parts == (90 * 1024, 265 * 1024, 40 * 1024)
