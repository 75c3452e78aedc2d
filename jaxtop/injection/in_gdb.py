"""The script that gdb runs: it borrows a thread of the process for four short calls, and leaves.

It knows only gdb's own Python. gdb has set CODED, the plan; every line for the command begins with MARK.
"""

import base64
import json
import time

try:
    import gdb
except ImportError:  # this is not gdb
    gdb = None

MARK = "jaxtop: "
PLAN = json.loads(base64.b64decode(globals().get("CODED", "e30=")))
PAGE = 4096
READ, WRITE, RUN = 1, 2, 4
PRIVATE_ANONYMOUS = 0x22
FUTEX, WAIT_BITSET, COMMAND = 202, 9, 0x7F
TIMEOUT = 4  # where a futex call has its timeout, behind the number of the call
# poll, select, nanosleep, recvfrom, recvmsg, accept, wait4, epoll_wait, clock_nanosleep, waitid, pselect6,
# ppoll, epoll_pwait, accept4: nothing in the C library calls these while it holds a lock of its own.
WAITS = {7, 23, 35, 43, 45, 47, 61, 230, 232, 247, 270, 271, 281, 288}

# Between two stops the process runs so many times as long as the last one took.
RESTS = 4

SETTINGS = (
    "set pagination off",
    "set confirm off",
    "set language c",
    "set unwindonsignal on",
    # Signals of the script reach it as if nobody looked.
    "handle all nostop noprint pass",
    "handle SIGINT nostop noprint pass",
)


def say(**facts):
    print(MARK + json.dumps(facts), flush=True)


def silently(command):
    gdb.execute(command, to_string=True)


def standing(thread):
    """Where a stopped thread is: the number and arguments of its system call, or -1; then sp and pc."""
    path = "/proc/{}/task/{}/syscall".format(PLAN["pid"], thread.ptid[1])
    with open(path) as file:
        return [int(word, 0) for word in file.read().split()]


def rank(thread):
    """How well a thread can be borrowed, 0 is best; None if it may hold a lock that the calls need.

    The calls need the C library's locks of memory and threads. A thread that waits for a condition without a
    timeout holds none, nor does one in Python's own machine code, nor one that waits for an event.
    """
    try:
        where = standing(thread)
    except (OSError, ValueError):
        return None
    call = where[0]
    is_main = thread.ptid[1] == PLAN["pid"]
    if call == FUTEX:
        return int(is_main) if where[2] & COMMAND == WAIT_BITSET and not where[TIMEOUT] else None
    if call == -1:
        return 2 if any(start <= where[-1] < end for start, end in PLAN["code"]) else None
    return 3 if call in WAITS else None


def attach():
    """Attach at a moment in which a thread can be borrowed; return that thread.

    Also return when the process would have been stopped, had all its stops been one.
    """
    end = time.monotonic() + PLAN["attaches_within"]
    before = 0.0
    while time.monotonic() < end:
        stopped = time.monotonic()
        silently("attach {}".format(PLAN["pid"]))
        found = [(rank(each), each.num, each) for each in gdb.selected_inferior().threads()]
        found = [each for each in found if each[0] is not None]
        if found:
            return min(found)[2], stopped - before
        silently("detach")
        took = time.monotonic() - stopped
        before += took
        time.sleep(RESTS * took)
    return None, None


def call(name, *words):
    types = ", ".join("long" for _ in words)
    text = "((long (*)({})) {})({})".format(types, PLAN["addresses"][name], ", ".join(map(str, words)))
    return int(gdb.parse_and_eval(text))


def start_thread():
    """Put the function and its data into new memory, and start it on a thread of its own."""
    process = gdb.selected_inferior()
    silently("set scheduler-locking on")  # these two need no other thread
    errno_at = call("__errno_location") & (1 << 64) - 1
    errno = bytes(process.read_memory(errno_at, 4))
    data = base64.b64decode(PLAN["data"])
    size = PAGE + -(-len(data) // PAGE) * PAGE
    page = call("mmap", 0, size, READ | WRITE, PRIVATE_ANONYMOUS, -1, 0) & (1 << 64) - 1
    if page > (1 << 64) - PAGE:
        return "it has no memory left"
    process.write_memory(page, base64.b64decode(PLAN["code_bytes"]))
    process.write_memory(page + PAGE, data)
    if call("mprotect", page, PAGE, READ | RUN) & 0xFFFFFFFF:
        return "its security policy (SELinux) allows no new machine code"
    silently("set scheduler-locking off")  # another thread may hold a lock of the memory allocator
    failed = call("pthread_create", page + PAGE + len(data) - 8, 0, page, page + PAGE) & 0xFFFFFFFF
    process.write_memory(errno_at, errno)
    return "it can start no thread (error {})".format(failed) if failed else ""


def main():
    for each in SETTINGS:
        silently(each)
    try:
        thread, stopped = attach()
    except gdb.error as error:
        say(why="gdb cannot attach: {}".format(error))
        return
    if thread is None:
        say(why="no thread of it was in a place from which another can be started")
        return
    say(stage="calling")
    try:
        thread.switch()
        why = start_thread()
    except (gdb.error, gdb.MemoryError) as error:
        why = "gdb failed: {}".format(error)
    finally:
        silently("detach")
    say(why=why, stopped_s=time.monotonic() - stopped)


if gdb is not None:
    main()
