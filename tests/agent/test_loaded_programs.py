"""What the agent makes of the programs that JAX lists: bounded, and never stopped by a single one."""

from __future__ import annotations

import gc
import sys
from functools import partial
from types import SimpleNamespace

import pytest

from jaxtop import wire
from jaxtop_agent import jaxprivate
from jaxtop_agent.collectors import programs as collector
from jaxtop_agent.collectors.programs import LoadedPrograms
from jaxtop_agent.core.board import CompilesState, PublisherRequests, SamplerPrograms, SamplerState, Topology
from jaxtop_agent.programs.compiles import storms
from jaxtop_agent.programs.compiles.compilations import FunctionCompilations, steady_ms
from jaxtop_agent.programs.compiles.recompilations import CompilationSubject, Recompilations


class Executable:
    """As far as it matters, a loaded program of JAX."""

    def __init__(self, name: str, size: int = 1, fingerprint: object = b"1234", **more: object) -> None:
        self.fingerprint = fingerprint
        self.traceback = None
        self.module = SimpleNamespace(name=name, computations=list)
        self.memory = SimpleNamespace(
            argument_size_in_bytes=size,
            output_size_in_bytes=size,
            alias_size_in_bytes=0,
            temp_size_in_bytes=size,
            generated_code_size_in_bytes=0,
        )
        self.asked = 0
        self.__dict__.update(more)

    def local_devices(self) -> list[int]:
        return [0]

    def hlo_modules(self) -> list[SimpleNamespace]:
        self.asked += 1
        return [self.module]

    def get_compiled_memory_stats(self) -> SimpleNamespace:
        return self.memory

    def get_parameter_shardings(self) -> None:
        return None

    get_output_shardings = get_parameter_shardings


@pytest.fixture
def loaded(monkeypatch):
    """The list of loaded programs, for a test to fill."""
    listed: list[Executable] = []
    monkeypatch.setattr(jaxprivate, "live_executables", lambda: list(listed))
    return listed


class Board:
    def __init__(self) -> None:
        self.sampler = SamplerState(Topology(0, 1, "cpu", (), None))
        self.programs = SamplerPrograms()
        self.compiles = CompilesState(history=Recompilations())
        self.requests = PublisherRequests()
        self.told: list[wire.Message] = []
        self.sources: dict[str, str] = {}
        self.is_watched = True

    def send(self, message: wire.Message) -> None:
        self.told.append(message)

    def report(self, severity: str, kind: str, text: str) -> None:
        self.send(wire.Event(0, severity, kind, text))

    @property
    def latest(self) -> wire.Programs:
        return [each for each in self.told if isinstance(each, wire.Programs)][-1]


def look(looking: LoadedPrograms, board: Board, times: int = 1) -> wire.Programs:
    for _ in range(times):
        looking.collect(board, object())
    return board.latest


def test_each_program_is_read_once_and_told_when_something_changed(loaded):
    looking, board = LoadedPrograms(), Board()
    loaded.append(Executable("jit_step"))
    look(looking, board)
    asked = loaded[0].asked
    look(looking, board, 5)
    assert (loaded[0].asked, len(board.told)) == (asked, 1)
    loaded.clear()
    assert look(looking, board).programs == ()


def test_what_the_compiler_does_not_know_is_unknown(loaded):
    loaded.append(Executable("jit_step"))
    (program,) = look(LoadedPrograms(), Board()).programs
    assert (program.flops, program.accessed_bytes, program.fingerprint) == (None, None, "1234")
    assert (program.devices, program.local_devices, program.created) == (1, 1, None)


def test_fingerprints_of_any_kind_are_text(loaded):
    loaded += [Executable("a", fingerprint=each) for each in (b"\xff\x00", None, 77)]
    programs = look(LoadedPrograms(), Board(), 2).programs
    assert [program.fingerprint for program in programs] == ["ff00", None, "77"]


def test_a_message_stays_small_and_keeps_those_that_need_most(loaded):
    loaded += [
        Executable(f"jit_{i}_" + "long" * 100, size=i, fingerprint=f"{i:040}".encode()) for i in range(400)
    ]
    loaded.append(Executable("jit_step", size=10**9))
    told = look(LoadedPrograms(), Board(), 50)
    assert len(told.programs) == collector.MOST_PROGRAMS and told.rest == 101
    assert told.programs[-1].name == "jit_step"  # as JAX lists them
    assert len(wire.encode(told)) < wire.MAX_TELEMETRY


def test_one_that_cannot_be_read_is_counted_and_harms_no_other(loaded):
    def fail() -> None:
        raise RuntimeError("deleted")

    loaded += [Executable("jit_bad", hlo_modules=fail), Executable("jit_step")]
    loaded.append(Executable("jit_half", get_compiled_memory_stats=fail))
    told = look(LoadedPrograms(), Board(), 2)
    assert [program.name for program in told.programs] == ["jit_step", "jit_half"]
    assert told.rest == 1 and told.programs[1].argument_bytes is None


def test_a_compilation_belongs_to_the_newest_program_of_its_name(loaded):
    looking, board = LoadedPrograms(), Board()
    loaded.append(Executable("jit_step", fingerprint=b"1"))
    assert look(looking, board).compile_ms == (None,)  # its end is not told yet
    board.compiles.compiled["jit_step"] = FunctionCompilations("step").again(1000, 70)
    assert look(looking, board).compile_ms == (70,)
    loaded.insert(0, Executable("jit_step", fingerprint=b"2"))
    board.compiles.compiled["jit_step"] = board.compiles.compiled["jit_step"].again(2000, 90)
    told = look(looking, board)
    assert (told.compile_ms, told.compiles) == ((90, 70), {"jit_step": 2})


def test_the_compilations_are_sent_with_their_causes_and_lines(loaded):
    looking, board = LoadedPrograms(), Board()
    loaded.append(Executable("jit_step"))
    board.compiles.compiled["jit_step"] = FunctionCompilations("step").again(1000, 70)
    board.compiles.history.note(CompilationSubject("step", "train.py:7"), 5, 90, from_cache=False)
    sent = look(looking, board)
    assert sent.compilations == (wire.Compilation(5, "step", "train.py:7", 90, from_cache=False),)
    assert sent.lines == (wire.CompiledLine("step", "train.py:7", 1, 90, 1, 0, 1),)


def storm(function: str, now: int, **more) -> FunctionCompilations:
    compiled = FunctionCompilations(function)
    for ago in (12, 9, 6, 3, 0):
        compiled = compiled.again(now - ago * 1000, 10, **more)
    return compiled


def test_a_storm_of_compilations_is_reported_once_and_ends_while_no_program_is_read(loaded, monkeypatch):
    """JAX's own functions have none, but one of the script that is called like them has."""
    own = SimpleNamespace(_lowerings=[SimpleNamespace(name="broadcast_in_dim"), SimpleNamespace(name="add")])
    monkeypatch.setitem(sys.modules, "jax._src.interpreters.mlir", own)
    looking, board = LoadedPrograms(), Board()
    loaded.append(Executable("jit_step"))
    look(looking, board)
    now = steady_ms()
    board.compiles.compiled["jit_step"] = storm("step", now)
    board.compiles.compiled["jit_broadcast_in_dim"] = storm("broadcast_in_dim", now)
    board.compiles.compiled["jit_add"] = storm("add", now, of_jax=False)
    told_of = storms.Storms(board)
    for _ in range(3):
        told_of.publish()
    assert board.programs.listed.recompiling == board.latest.recompiling == ("jit_add", "jit_step")
    assert board.latest.programs == (look(looking, board).programs) and board.latest.compiles["jit_step"] == 5
    events = [each for each in board.told if isinstance(each, wire.Event)]
    assert [(each.kind, each.text.partition(" in ")[0]) for each in events] == [
        ("recompiling", "add was compiled 5 times"),
        ("recompiling", "step was compiled 5 times"),
    ]
    monkeypatch.setattr(storms, "steady_ms", lambda: now + 60_000)
    board.is_watched = False  # whoever comes next is told what was said last
    told_of.publish()
    assert board.latest.recompiling == () and board.latest.programs


def test_operations_that_are_compiled_anew_after_the_first_steps_are_a_storm(loaded, monkeypatch):
    looking, board = LoadedPrograms(), Board()
    loaded.append(Executable("jit_step"))
    look(looking, board)
    now = [steady_ms()]
    monkeypatch.setattr(storms, "steady_ms", lambda: now[0])
    told_of, found = storms.Storms(board), []
    for second in range(100):
        board.sampler.rhythm = wire.Rhythm(1) if second >= 45 else None
        add = board.compiles.compiled.get("jit_add", FunctionCompilations("add"))
        board.compiles.compiled["jit_add"] = add.again(now[0], 10, of_jax=True, place="train.py:7")
        told_of.publish()
        found.append(bool(board.programs.recompiling))
        now[0] += 1000
    assert found.index(True) == 45 + 41 and all(found[86:])
    assert look(looking, board).of_jax == ("jit_add",)


def test_switched_off_its_programs_are_unknown(loaded):
    looking, board = LoadedPrograms(), Board()
    loaded.append(Executable("jit_step"))
    look(looking, board)
    looking.forget(board)
    assert board.latest.programs == ()


class Computation:
    """A computation of a program: an array, and this many sums."""

    def __init__(self, name: str, count: int, asked: list[int]) -> None:
        self.name, self._count, self._asked = name, count, asked

    def instructions(self) -> list[SimpleNamespace]:
        self._asked.append(self._count)
        sums = [f"%p{i + 1} = f32[8,8] add(%p{i}, %p{i})" for i in range(self._count)]
        return [
            SimpleNamespace(to_string=partial(str, each)) for each in ("%p0 = f32[8,8] parameter(0)", *sums)
        ]


def test_a_large_program_is_read_in_parts_after_the_small_ones(loaded):
    """All are listed at once, the source says how many were read, and nothing of JAX is held meanwhile."""
    asked: list[int] = []
    for name, count, others in (("jit_large", 100, 450), ("jit_small", 3, 0), ("jit_other", 4, 0)):
        parts = [Computation("main" if not i else f"unused.{i}", count, asked) for i in range(others + 1)]
        module = SimpleNamespace(name=name, computations=lambda parts=parts: parts)
        more = {"client": SimpleNamespace(platform="cpu"), "local_devices": lambda: [SimpleNamespace(id=0)]}
        loaded.append(Executable(name, module=module, **more))
    looking, board = LoadedPrograms(), Board()
    turns = 0
    while not turns or board.sources["programs"] != "on":
        told = look(looking, board)
        turns += 1
        assert [each.name for each in told.programs] == ["jit_large", "jit_small", "jit_other"]
        if turns == 1:
            assert board.sources["programs"] == "on: reading programs, 2 of 3"
            assert [each.flops for each in told.programs] == [None, 192, 256]
            assert asked[:2] == [4, 3]
            assert not [each for each in gc.get_referrers(loaded[0]) if each is not loaded]
    assert told.programs[0].flops == 100 * 64 and turns > 4
    # JAX would need 50 MB to count its memory, so it is known only as far as its text shows it.
    sizes = [(each.argument_bytes, each.output_bytes, each.temp_bytes) for each in told.programs]
    assert sizes == [(256, 256, None), (1, 1, 1), (1, 1, 1)]
