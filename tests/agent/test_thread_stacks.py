"""Where threads stand is read without keeping, running or printing anything of theirs."""

from __future__ import annotations

import sys
import threading
import time
import weakref
from contextlib import contextmanager

from jaxtop import wire
from jaxtop_agent.stalls import calls, stacks
from tests.support import eventually


class Value:
    pass


class Odd(threading.Thread):
    """A thread whose class was not made with viewers in mind."""

    def __getattribute__(self, name):
        if name == "name" and sys._getframe(1).f_globals["__name__"].startswith("jaxtop"):
            raise AssertionError("asked for its name")
        return super().__getattribute__(name)


@contextmanager
def standing(depth=0, kind=threading.Thread, **options):
    """A thread that stands in `wait`, so many calls deep, with a value of its own."""
    released, refs = threading.Event(), []

    def wait():
        value = Value()
        refs.append(weakref.ref(value))
        released.wait()

    def deeper(left):
        deeper(left - 1) if left else wait()

    thread = kind(target=deeper, args=(depth,), **options)
    thread.start()
    eventually(lambda: refs, every=0.001)
    try:
        yield thread, refs[0], released
    finally:
        released.set()
        thread.join()


def of(name):
    return next(thread for thread in stacks.read(frozenset()) if thread.name == name)


def test_every_thread_is_listed_with_its_name_and_the_main_one_first():
    with standing(name="loader", kind=Odd):
        first, *others = stacks.read(frozenset())
        assert first.is_main and first.name == "MainThread"
        here = "test_every_thread_is_listed_with_its_name_and_the_main_one_first"
        assert [frame.function for frame in first.frames[-4:]] == [here, "read", "frames", "_undisturbed"]
        (loader,) = [thread for thread in others if thread.name == "loader"]
        own = [frame for frame in loader.frames if "/" not in frame.file]
        assert (own[-1].file, own[-1].function) == ("test_thread_stacks.py", "wait")
        assert loader.frames[-1].file == f"python3.{sys.version_info.minor}/threading.py"


def test_threads_of_the_agent_are_left_out():
    with standing(name="ours") as (thread, _, _):
        assert "ours" not in [each.name for each in stacks.read(frozenset({thread.ident}))]


def test_nothing_of_a_thread_is_kept():
    """What a function held is gone as soon as it has returned, however often it was looked at."""
    with standing() as (thread, value, released):
        for _ in range(10):
            stacks.read(frozenset())
        released.set()
        thread.join()
        assert value() is None


def test_a_deep_stack_keeps_where_it_began_and_where_it_is():
    with standing(depth=300, name="deep"):
        deep = of("deep")
    assert len(deep.frames) == 64 and deep.unsent > 230
    assert deep.frames[0].file.startswith("python3.") and deep.frames[1].function != "deeper"
    assert any(frame.function == "wait" for frame in deep.frames[-4:])


def test_very_many_threads_fit_into_a_message():
    name = "a name that is far too long " * 50
    released = threading.Event()

    def deeper(left):
        deeper(left - 1) if left else released.wait()

    threads = [threading.Thread(target=deeper, args=(80,), name=name) for _ in range(80)]
    for thread in threads:
        thread.start()
    try:
        read = stacks.read(frozenset())
    finally:
        released.set()
        for thread in threads:
            thread.join()
    assert len(wire.encode(wire.Stacks(0, read))) < 64_000
    assert read[0].is_main and read[0].unsent == 0 and len(read) > 1


def inside(body):
    """What a thread is found to be in, while it runs this line of code."""
    compiled = type("PjitFunction", (), {"__call__": staticmethod(time.sleep), "__name__": "train_step"})
    module = {
        "step": time.sleep,
        "model": type("Model", (), {"step": staticmethod(time.sleep), "update": compiled()}),
        "time": time,
    }
    module["fun"] = time.sleep
    module["trainer"] = type("Trainer", (), {"__init__": lambda self: setattr(self, "step_of", compiled())})()
    code = compile(f"def stand():\n    {body}\n", "script.py", "exec")
    exec(code, module)
    thread = threading.Thread(target=module["stand"])
    thread.start()
    try:

        def frame():
            found = sys._current_frames().get(thread.ident)
            return found if found is not None and found.f_code.co_name == "stand" else None

        eventually(frame, every=0.001)
        time.sleep(0.1)
        return calls.launch(frame(), {"step"})
    finally:
        thread.join()


def test_a_compiled_function_that_has_no_frame_is_known_by_its_name():
    assert inside("step(0.5)") == "step"
    assert inside("x = model.step(0.5)") == "step"
    assert inside("x = trainer.step_of(0.5)") == inside("model.update(0.5)") == "train_step"
    assert inside("time.sleep(0.5)") is None
    assert inside("fun(step(0) or 0.5)") is None
    assert inside("step(fun(0.5) or 0)") is None
