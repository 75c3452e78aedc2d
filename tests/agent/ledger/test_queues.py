"""How full queues of real libraries are, read while a thread waits in them or does something else."""

import gc
import multiprocessing
import queue
import sys
import threading
import time
import weakref

import pytest

from jaxtop_agent.arrays import running_frames
from jaxtop_agent.ledger.queues import WaitedQueue
from tests.support import eventually


def stack_of(thread):
    frames = running_frames.frames()
    try:
        return running_frames.stack(frames[thread.ident])
    finally:
        frames.clear()


def waits_in(thread, *names):
    return any(frame.f_code.co_name in names for frame in stack_of(thread))


def taker(take):
    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    eventually(lambda: waits_in(thread, "get", "__next__"))
    time.sleep(0.05)  # it is inside the wait
    return thread


def test_a_queue_of_threads_is_found_in_a_wait_and_looked_at_afterwards():
    filled, seen = queue.Queue(maxsize=4), WaitedQueue()
    assert seen.look([], waits=False) is None
    thread = taker(filled.get)
    assert seen.look(stack_of(thread), waits=True) == (1, "threads", 0, 4)
    for _ in range(4):
        filled.put("batch")
    thread.join()
    assert seen.look([], waits=False) == (1, "threads", 3, 4)
    filled.put("batch")
    assert seen.look([], waits=False)[2:] == (4, 4)


def test_a_queue_is_not_kept_alive():
    class Batch:
        pass

    filled, seen = queue.Queue(), WaitedQueue()
    thread = taker(filled.get)
    assert seen.look(stack_of(thread), waits=True).capacity is None
    filled.put(None)
    thread.join()
    batch = Batch()
    filled.put(batch)
    gone = weakref.ref(batch)
    assert seen.look([], waits=False).depth == 1
    del batch, filled, thread
    gc.collect()
    assert gone() is None
    assert seen.look([], waits=False) is None


def test_a_queue_of_the_scripts_own_class_is_not_read():
    class Own(queue.Queue):
        def _qsize(self):
            callers.append(threading.current_thread())
            return super()._qsize()

    callers, seen = [], WaitedQueue()
    filled = Own()
    thread = taker(filled.get)
    assert seen.look(stack_of(thread), waits=True) is None
    assert set(callers) == {thread}
    filled.put(None)
    thread.join()


@pytest.mark.skipif(sys.platform == "darwin", reason="its semaphores have no value to read")
@pytest.mark.parametrize(("most", "capacity"), [(3, 3), (0, None)])
def test_a_queue_of_processes_has_the_depth_of_its_semaphore(most, capacity):
    filled, seen = multiprocessing.get_context("spawn").Queue(most), WaitedQueue()
    thread = taker(filled.get)
    assert seen.look(stack_of(thread), waits=True) == (1, "multiprocessing", 0, capacity)
    for i in range(3):
        filled.put(i)
    thread.join()
    assert seen.look([], waits=False).depth == 2
    filled.close()
    filled.join_thread()


def test_of_grains_buffer_what_is_ready_counts():
    grain = pytest.importorskip("grain")
    held = threading.Event()

    class Source:
        def __len__(self):
            return 100

        def __getitem__(self, index):
            held.wait()
            return index

    read = grain.ReadOptions(num_threads=1, prefetch_buffer_size=4)
    batches = iter(grain.MapDataset.source(Source()).to_iter_dataset(read))
    seen = WaitedQueue()
    thread = taker(lambda: next(batches))
    assert seen.look(stack_of(thread), waits=True) == (1, "grain", 0, 4)
    held.set()
    thread.join()
    eventually(lambda: seen.look([], waits=False).depth == 4)


def test_what_cannot_be_read_switches_only_itself_off(monkeypatch):
    filled, seen = queue.Queue(), WaitedQueue()
    thread = taker(filled.get)
    monkeypatch.setattr(
        "jaxtop_agent.ledger.queues._limit", lambda _: (_ for _ in ()).throw(TypeError("a new version"))
    )
    assert seen.look(stack_of(thread), waits=True) is None
    filled.put(None)
    thread.join()
    monkeypatch.undo()
    assert seen.look([], waits=False) is None
