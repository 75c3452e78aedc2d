"""Native stacks of threads of this process: what is known, what is not, and that nonsense is an error."""

from __future__ import annotations

import ctypes
import hashlib
import json
import mmap
import os
import random
import socket
import struct
import sys
import threading
from contextlib import contextmanager, suppress
from subprocess import PIPE

import pytest

from jaxtop import wire
from jaxtop_agent.native import names, sampling, symbols, tasks, telling
from jaxtop_agent.native.memory import OwnMemory, UnwindError, areas_of, read_areas
from jaxtop_agent.native.objects import ElfObject, ElfObjects
from jaxtop_agent.native.symbols import CodePlace, names_in
from jaxtop_agent.native.unwinding import Unwinder
from tests.cases import thorough
from tests.support import PYTHON, ROOT, environment, eventually, processes

PROGRAM = ROOT / "tests" / "programs" / "waiting.py"

SEEDS = [*range(3), *map(thorough, range(3, 30))]


@contextmanager
def memory():
    found = OwnMemory()
    try:
        yield found
    finally:
        found.close()


@contextmanager
def in_recv():
    """A thread that waits for a socket; its native id."""
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=ours.recv, args=(1,))
    thread.start()
    try:
        eventually(lambda: tasks.waiting(thread.native_id).text.startswith("45 "), every=0.01)
        yield thread.native_id
    finally:
        theirs.send(b"x")
        thread.join()
        ours.close()
        theirs.close()


def test_a_thread_that_waits_for_a_socket_is_unwound_to_its_beginning():
    with in_recv() as task, memory() as found:
        waiting = tasks.waiting(task)
        raw = Unwinder(found).walk(waiting.pc, waiting.sp)
        named = sampling.FunctionNames(found, sampling.TimeLimit())
        named.look_up(raw.frames)
        assert raw.why_incomplete == ""
        assert "sock_recv" in [named.name(each) for each in raw.frames]
        assert raw.frames[-1].found.name.startswith("libc")


def test_a_thread_that_runs_has_no_stack():
    stop = threading.Event()

    def compute():
        while not stop.is_set():
            hashlib.pbkdf2_hmac("sha256", b"word", b"salt", 300_000)  # without the GIL

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        eventually(lambda: tasks.waiting(thread.native_id).text == tasks.RUNNING, every=0.01)
        assert not tasks.parsed(tasks.RUNNING).is_known
    finally:
        stop.set()
        thread.join()


def test_a_thread_that_has_ended_has_no_stack():
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    eventually(lambda: tasks.waiting(thread.native_id) == tasks.Waiting(""), every=0.01)


@pytest.mark.parametrize(
    "text", ["", "running", "0 0x1", "-1 0x0 0x0", "a b c d e", "7 0x 0x 0x", "\0 1 2 3"]
)
def test_what_a_kernel_might_say_otherwise_is_no_stack(text):
    assert not tasks.parsed(text).is_known


def test_only_the_main_thread_and_threads_that_communicate_are_sampled(monkeypatch):
    with in_recv() as task:
        assert task not in [each.task for each in sampling.sample((), ())]
        monkeypatch.setattr(telling, "communicates", lambda frames: any(map(in_socket, frames)))
        (found,) = [each for each in sampling.sample((), (task,)) if each.task == task]
        assert found.is_current and found.stack.waits_in == "sock_recv"
        assert found.stack.waits_for == "data from a socket"
        assert task not in [each.task for each in sampling.sample((task,), ())]
    assert not found.is_current


def in_socket(frame):
    return frame.function == "sock_recv"


def test_frames_of_the_interpreter_are_one_line(monkeypatch):
    monkeypatch.setattr(telling, "communicates", lambda frames: any(map(in_socket, frames)))
    with in_recv() as task:
        (found,) = [each for each in sampling.sample((), (task,)) if each.task == task]
    outermost, *_, innermost = found.stack.frames
    assert outermost.library == telling.PYTHON and outermost.count > 3
    assert innermost.library.startswith("libc")


def test_a_sampling_out_of_time_ends_and_says_so(monkeypatch):
    monkeypatch.setattr(sampling, "CPU_S", -1.0)
    monkeypatch.setattr(sampling, "SLICE_S", -1.0)
    monkeypatch.setattr(telling, "communicates", lambda _: True)
    with in_recv() as task:
        (found,) = [each for each in sampling.sample((), (task,)) if each.task == task]
    assert found.stack.why_incomplete == "its time is over" and found.stack.frames


@pytest.mark.parametrize(
    ("platform", "machine"), [("linux", "aarch64"), ("darwin", "x86_64"), ("linux", "i686")]
)
def test_other_machines_say_why_they_have_none(monkeypatch, platform, machine):
    assert sampling.why_not() == ""
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("", "", "", "", machine)))
    assert (
        sampling.why_not()
        == f"native stacks are read on Linux with x86-64 only; this is {platform} on {machine}"
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_wild_registers_give_a_stack_that_says_why_it_ends(seed):
    dice = random.Random(seed)
    with in_recv() as task, memory() as found:
        true = tasks.waiting(task)
        areas = read_areas()
        code = [each for each in areas if "x" in each.flags and each.path.startswith("/")]
        unwinder = Unwinder(found)
        for _ in range(300):
            near = true.sp + dice.randrange(-4096, 4096)
            anywhere = dice.choice(areas)
            sp = dice.choice(
                [near, near & ~7, dice.randrange(anywhere.start, anywhere.end), dice.getrandbits(64), 0]
            )
            place = dice.choice(code)
            pc = dice.choice([true.pc, dice.randrange(place.start, place.end), dice.getrandbits(64), 0])
            raw = unwinder.walk(pc, sp)
            assert len(raw.frames) <= 256 and isinstance(raw.why_incomplete, str)
            if sp == 0 or pc == 0:
                assert raw.why_incomplete


@pytest.mark.parametrize("address", [0, 1, 0x1000, (1 << 47) - 8, 1 << 63, (1 << 64) - 8, -8, 1 << 70])
def test_an_address_that_is_not_mapped_is_an_error_in_words(address):
    with memory() as found, pytest.raises(UnwindError, match="no readable memory"):
        found.word(address)


def test_memory_that_was_unmapped_meanwhile_is_an_error_in_words():
    area = mmap.mmap(-1, 1 << 20)
    view = ctypes.c_char.from_buffer(area)
    address = ctypes.addressof(view)
    del view
    with memory() as found:
        assert found.word(address) == 0
        area.close()
        with pytest.raises(UnwindError, match="no readable memory"):
            found.word(address + 8192)


@pytest.mark.parametrize("text", ["nonsense", "1-2", "x-y r-xp 0 0 0", "10-20 r-xp", "\0\0", "1 2 3 4 5 6"])
def test_a_list_of_mappings_that_makes_no_sense_is_an_error_in_words(text):
    with pytest.raises(UnwindError, match="mappings"):
        areas_of(text)


def library():
    """A small library with functions."""
    with memory() as found:
        objects = ElfObjects(found)
        paths = {each.path: each for each in read_areas() if "x" in each.flags}
        path = next(each for each in paths if "_socket." in each or "/select." in each)
        return path, objects.at(paths[path].start)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_library_gives_names_or_an_error(tmp_path, seed):
    dice, (path, _) = random.Random(seed), library()
    with open(path, "rb") as file:
        whole = file.read()
    places = [CodePlace(at, at - 16) for at in range(0x1000, len(whole), 997)]
    damaged = tmp_path / "damaged.so"
    for _ in range(30):
        data = bytearray(whole[: dice.choice([len(whole), dice.randrange(64, len(whole)), 64])])
        tables = struct.unpack_from("<Q", data, 40)[0]
        for _ in range(dice.randrange(1, 60)):
            at = dice.choice([dice.randrange(len(data)), dice.randrange(64), tables + dice.randrange(2000)])
            if at < len(data):
                data[at] = dice.randrange(256)
        damaged.write_bytes(data)
        file = os.open(damaged, os.O_RDONLY)
        try:
            with suppress(UnwindError):
                named = names_in(file, bytes(data[:1024]), places, int)
                assert all(isinstance(name, str) for name in named.values())
        finally:
            os.close(file)


def test_a_library_that_was_replaced_on_disk_gives_no_wrong_names(tmp_path):
    path, found = library()
    other = tmp_path / "other.so"
    with open(path, "rb") as file:
        other.write_bytes(file.read().replace(b"\x7fELF\x02\x01\x01", b"\x7fELF\x02\x01\x02", 1))
    with memory() as read:
        assert symbols.function_names(read, found, [CodePlace(0x4000, None)], int) is not None
        with pytest.raises(UnwindError, match="on disk is not what is in memory"):
            symbols.function_names(read, found._replace(path=str(other)), [CodePlace(0x4000, None)], int)
        with pytest.raises(OSError, match="No such file"):
            symbols.function_names(read, found._replace(path="/nowhere.so"), [CodePlace(0x4000, None)], int)
        assert symbols.function_names(read, found._replace(path="[vdso]"), [CodePlace(0, None)], int) == {}


def test_memory_without_a_library_has_no_object():
    with memory() as found:
        stack = next(each for each in read_areas() if each.path == "[stack]")
        with pytest.raises(UnwindError, match=r"no program or library|belongs to no library|makes no sense"):
            ElfObjects(found).at(stack.start + 64)


@pytest.mark.parametrize(
    ("symbol", "readable"),
    [
        ("ncclCommInitRank", "ncclCommInitRank"),
        ("_ZN4gloo9transport3tcp13UnboundBuffer8waitRecvEPiNSt6chrono8durationIlSt5ratioILl1ELl1000EEEE",
         "gloo::transport::tcp::UnboundBuffer::waitRecv"),
        ("_ZN3xla12_GLOBAL__N_13RunEPKc.cold", "xla::Run"),
        ("_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_PKc", "std::operator<<"),
        ("_Znonsense", "_Znonsense"),
        ("", ""),
    ],
)  # fmt: skip
def test_names_can_be_read(symbol, readable):
    assert names.readable(symbol) == readable


def test_a_name_that_is_too_long_is_not_demangled_but_cut():
    assert len(names.readable("_Z" + "x" * 5000)) == names.LONGEST


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("xla::(anonymous namespace)::A<int, B<int> >::f(int) const::{lambda(int)#1}::operator()(int) const",
         "xla::A::f::{lambda}::operator()"),
        ("void absl::lts_20260107::in::Invoke<false, void, g(int)&&>(State*)", "absl::in::Invoke"),
        ("bool a::operator< <int>(int)", "a::operator<"),
        ("a::operator bool() const", "a::operator bool"),
        ("std::function<void (int)>::operator()(int) const", "std::function::operator()"),
        ("f(", "f"),
        (">>>(((", ">>>((("),
    ],
)  # fmt: skip
def test_arguments_and_templates_are_left_out(name, short):
    assert names.without_arguments(name) == short


def frames(*functions, library="libx.so"):
    """Native frames; the functions are given from the innermost on."""
    return tuple(wire.NativeFrame(each, library) for each in reversed(functions))


def test_the_function_that_communicates_says_what_a_thread_waits_for():
    waits = ("syscall", "absl::Mutex::Block", "xla::Wait", "ncclCommInitRank", "xla::NcclApi::Init")
    assert telling.waits_in(frames(*waits)) == "ncclCommInitRank"
    assert telling.communicates(frames(*waits))


def test_without_communication_it_is_the_innermost_of_no_general_library():
    assert (
        telling.waits_in(frames("absl::Mutex::Block", "std::wait", "jax::Await", "xla::Run")) == "jax::Await"
    )
    assert telling.waits_in(frames("poll", library="libc.so.6")) == ""
    assert telling.waits_in(()) == ""


PYTHON_FRAME = wire.NativeFrame(telling.PYTHON, telling.PYTHON, 0, 19)
# Those of a callback that JAX calls in the launch of its program, the innermost first.
CALLBACK = (
    "nanobind::detail::obj_vectorcall", "nanobind::detail::api::operator()", "jax::XlaFfiPythonCpuCallback",
    "xla::cpu::CollectiveThunk::Execute", "PjitFunction_tp_vectorcall",
)  # fmt: skip


def test_what_called_the_python_code_that_waits_tells_nothing():
    inside = frames("clock_nanosleep", library="libc.so.6")
    stack = (PYTHON_FRAME, *frames(*CALLBACK), PYTHON_FRAME, *inside)
    assert telling.waits_in(stack) == "" and not telling.communicates(stack)
    assert telling.waits_in((*stack, *frames("cuStreamSynchronize"))) == "cuStreamSynchronize"
    assert telling.communicates((PYTHON_FRAME, *frames("xla::Run"), PYTHON_FRAME, *frames("ncclInit")))


@pytest.mark.jax
@pytest.mark.newest
@pytest.mark.timeout(120)
def test_a_callback_that_hangs_is_told_by_what_its_python_code_waits_for():
    """JAX calls it on the main thread, in the launch."""
    with processes([PYTHON, PROGRAM, "callback"], env=environment(1), imports_jax=True, stdout=PIPE) as (
        process,
    ):
        (main,) = json.loads(process.stdout.readline())["sampled"]
    assert [library for _, library, _ in main["frames"]].count(telling.PYTHON) > 1
    assert (main["waits_in"], main["waits_for"]) == ("", "a time to pass (sleep)")


@pytest.mark.parametrize(
    ("function", "library"),
    [
        ("jax::BlockUntilReadyWithCancel", "libjax_common.so"),
        ("nanobind::detail::nb_func_vectorcall_complex", "libjax_common.so"),
        ("pybind11::cpp_function::dispatcher", "module.so"),
        ("_PyEval_EvalFrameDefault", "module.so"),
        ("PyObject_Vectorcall", "module.so"),
        ("PjitFunction_tp_vectorcall", "libjax_common.so"),
        ("closure_fcn", "_ctypes.cpython-311-x86_64-linux-gnu.so"),
        ("ffi_call", "libffi.so.8.1.2"),
    ],
)
def test_plumbing_between_python_and_libraries_tells_nothing(function, library):
    assert telling.waits_in(frames(function, library=library)) == ""


def test_only_libraries_of_the_system_are_general():
    assert telling.waits_in(frames("cuStreamSynchronize", library="libcuda.so.1")) == "cuStreamSynchronize"
    for library in ("libc.so.6", "libc-2.31.so", "libstdc++.so.6.0.30", "[vdso]", "ld-linux-x86-64.so.2"):
        assert telling.is_of_system(library)


def test_threads_that_wait_for_work_do_not_communicate():
    assert not telling.communicates(frames("epoll_wait", "gloo::transport::tcp::Loop::run"))
    assert not telling.communicates(frames("ncclProxyService", "ncclProxyRun"))
    assert not telling.communicates(frames("Eigen::WaitForWork", "gloo::Worker"))


def test_an_object_without_a_file_has_a_name():
    assert ElfObject("", 0, 0, None).name == "memory"
    assert ElfObject("/a/libx.so (deleted)", 0, 0, None).name == "libx.so"
