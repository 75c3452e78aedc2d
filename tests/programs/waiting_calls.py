"""Threads that wait for ever, each in another system call: FOLDER.

It prints what each waits for in words, as JSON, and ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import socket
import subprocess
import sys
import threading
import time

from jaxtop_agent.native import calls, tasks
from jaxtop_agent.native.memory import OwnMemory

FOREVER = 600
path, fifo, opened = (os.path.join(sys.argv[1], name) for name in ("file", "fifo", "opened"))
os.mkfifo(fifo)
os.mkfifo(opened)
(near, far), (ours, theirs) = os.pipe(), socket.socketpair()
# They end when nobody can write to them any more.
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
held = threading.Lock()
held.acquire()
locked, unlocked = open(path, "w"), open(path, "w")  # noqa: SIM115 - they stay open
fcntl.flock(locked, fcntl.LOCK_EX)
server = socket.create_server(("127.0.0.1", 0))
poller, epoll = select.poll(), select.epoll()
for file in (near, ours):
    poller.register(file, select.POLLIN)
epoll.register(near, select.EPOLLIN)


def poll_full():
    end = os.pipe()[1]
    os.set_blocking(end, False)
    os.write(end, bytes(1 << 20))
    full = select.poll()
    full.register(end, select.POLLOUT)
    full.poll()


WAITS = {
    "lock": held.acquire,
    "child": child.wait,
    "sleep": lambda: time.sleep(FOREVER),
    "sleep in poll": lambda: select.poll().poll(FOREVER * 1000),
    "sleep in select": lambda: select.select([], [], [], FOREVER),
    "read": lambda: os.read(near, 1),
    "terminal": lambda: os.read(pty.openpty()[1], 1),
    "write": lambda: os.write(os.pipe()[1], bytes(1 << 20)),
    "recv": lambda: ours.recv(1),
    "accept": server.accept,
    "poll": poller.poll,
    "poll to write": poll_full,
    "select": lambda: select.select([near], [], []),
    "epoll": epoll.poll,
    "open": lambda: os.open(fifo, os.O_RDONLY),
    "read of a named pipe": lambda: os.read(os.open(opened, os.O_RDWR), 1),
    "flock": lambda: fcntl.flock(unlocked, fcntl.LOCK_EX),
    "lockf": lambda: fcntl.lockf(unlocked, fcntl.LOCK_EX),
}
# A file lock of another process.
code = f"import fcntl; file = open({path!r}, 'r+'); fcntl.lockf(file, 2); print(flush=True); input()"
other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
other.stdout.readline()


def settled(task):
    """Return what the kernel says about a thread once it has waited at one place for a while."""
    before, same = "", 0
    while same < 5:
        time.sleep(0.02)
        waiting = tasks.waiting(task)
        same = same + 1 if waiting.is_known and waiting.text == before else 0
        before = waiting.text
    return before


memory, found = OwnMemory(), {}
for name, wait in WAITS.items():
    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    text = settled(thread.native_id)
    memory.close()
    memory = OwnMemory()  # the thread has memory of its own
    found[name] = calls.words(text, memory)
print(json.dumps(found), flush=True)
os._exit(0)
