"""Reads variables of running functions as the census does, and proves that no trace is left; prints `ok`.

Run by each Python there is, without JAX: argument `traced` sets a trace function, as a debugger does.
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref

from jaxtop_agent.arrays import frames


class Thing:
    """Something that can be seen to go away."""


TRACED = "traced" in sys.argv
READS_NOTHING = TRACED and sys.version_info < (3, 12)
go, there = threading.Semaphore(0), threading.Semaphore(0)
seen: dict[str, object] = {}
module_level = Thing()


def pause() -> None:
    there.release()
    go.acquire()


def plain(argument: Thing) -> None:
    first = Thing()
    cell = Thing()

    def inner() -> Thing:
        return cell

    seen["held"] = [weakref.ref(argument), weakref.ref(cell)]
    pause()
    seen["first"] = weakref.ref(first)
    first = Thing()  # what was there is dropped
    seen["dropped at once"] = seen["first"]() is None
    pause()
    del argument
    seen["inner"] = inner() is cell and first is not None


def shows_its_locals() -> None:
    value = Thing()
    kept = locals()
    pause()
    seen["locals"] = sorted(kept), kept["value"] is value
    kept["added"] = 1
    pause()
    seen["locals again"] = sorted(kept), kept["added"] == 1


def values_of(function: str, thread: int) -> dict[str, object]:
    reader = frames.FrameReader()
    found = {
        variable.name: type(reader.read(variable)).__name__
        for variable in frames.variables()
        if variable.thread == thread and variable.function == function
    }
    reader.let_go()
    return found


def run(function: object, *arguments: object) -> threading.Thread:
    def body() -> None:
        if TRACED:
            sys.settrace(lambda *_: lambda *_: None)  # a local trace function, on each new frame
        function(*arguments)

    thread = threading.Thread(target=body)
    thread.start()
    there.acquire()
    return thread


gc.disable()  # what goes away here goes by its reference count
thread = run(plain, Thing())
found = values_of("plain", thread.ident)
if READS_NOTHING:
    assert set(found.values()) == {"NoneType"}, found
else:
    assert found == {"argument": "Thing", "first": "Thing", "cell": "Thing", "inner": "function"}, found
go.release()
there.acquire()
assert seen["dropped at once"], "a value that the function dropped was kept alive"
values_of("plain", thread.ident)
go.release()
thread.join()
assert seen["inner"]
assert [reference() for reference in seen["held"]] == [None, None], "values of a function that ended are kept"

thread = run(shows_its_locals)
found = values_of("shows_its_locals", thread.ident)
assert found["value"] == ("NoneType" if sys.version_info < (3, 12) else "Thing"), found
go.release()
there.acquire()
assert seen["locals"] == (["value"], True), seen
values_of("shows_its_locals", thread.ident)
go.release()
thread.join()
names, is_kept = seen["locals again"]
assert names == ["added", "value"] and is_kept, seen


def suspended():
    value = Thing()
    yield weakref.ref(value)
    value = Thing()  # what was there is dropped
    kept = yield
    yield kept is None and value is not None


generator = suspended()
reference = next(generator)
values = frames.values(generator.gi_frame)
assert type(values.pop("value")) is Thing and not any(values.values()), values
next(generator)
assert reference() is None, "a value that a generator dropped was kept alive"
frames.values(generator.gi_frame)
assert next(generator) and next(generator, "ended") == "ended"

here = values_of("<module>", 0)
assert here["module_level"] == "Thing", here
assert module_level is not None and "module_level" in globals()
print("ok")
