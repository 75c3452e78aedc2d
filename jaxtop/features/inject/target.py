"""The process that gets the agent: what it is, and why it cannot have one."""

from __future__ import annotations

import os
import pwd
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop.base import processes
from jaxtop.base.names import legible, shorten
from jaxtop.features.inject import payload, symbols
from jaxtop.store import runfiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ASLEEP_IN_KERNEL_S = 5.0
LONGEST_COMMAND = 80
YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
_SCOPES = {
    1: "kernel.yama.ptrace_scope is 1, so only root may (sudo), or the parent of the process",
    2: "kernel.yama.ptrace_scope is 2, so only root may (sudo)",
    3: "kernel.yama.ptrace_scope is 3, so nobody may until the machine is started again",
}


class InjectionRefused(Exception):
    """Why a process cannot get the agent, and what to do, in one line."""


@dataclass(frozen=True)
class Target:
    """A process that can get the agent."""

    pid: int
    uid: int
    gid: int
    command: str
    program: str
    python: tuple[int, int, int]
    threads: int
    ticks: int | None
    addresses: dict[str, int]
    # Where Python's machine code is, without a memory allocator in it: a thread there holds no lock of one.
    code: list[tuple[int, int]]

    @property
    def words(self) -> str:
        python = ".".join(map(str, self.python))
        return f"pid {self.pid} runs `{self.command}` (Python {python}, {self.threads} threads)"

    @property
    def is_same(self) -> bool:
        """Whether the process still lives, and its pid was not given to another."""
        return processes.start_ticks(self.pid) == self.ticks


def inspect_process(pid: int) -> Target:
    """Return what this process is; raise `InjectionRefused` if it cannot get the agent."""
    status = _status(pid)
    _check_state(pid, status)
    _check_user(pid, status)
    _check_place(pid, status)
    for each in runfiles.find():
        if not each.is_stale and each.hello.pid == pid:
            run = each.hello.run or each.hello.agent
            raise InjectionRefused(f"pid {pid} has an agent already: jaxtop attach {run}")
    try:
        memory = symbols.ProcessMemory(pid)
    except OSError as error:
        raise InjectionRefused(_why_not_traced(pid, error)) from None
    try:
        return _look_inside(pid, status, memory)
    except OSError as error:  # it has ended meanwhile
        raise InjectionRefused(f"pid {pid} cannot be read: {error.strerror}") from None
    finally:
        memory.close()


def _status(pid: int) -> dict[str, str]:
    try:
        text = Path(f"/proc/{pid}/status").read_text("utf-8", errors="replace")
    except (OSError, OverflowError):
        raise InjectionRefused(
            f"there is no process {pid} here; inside a container pids are others"
        ) from None
    return {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}


def _check_state(pid: int, status: dict[str, str]) -> None:
    if pid == os.getpid():
        raise InjectionRefused(f"pid {pid} is this command")
    if status["Tgid"] != str(pid):
        raise InjectionRefused(f"{pid} is a thread of process {status['Tgid']}: name that pid")
    state = status["State"][0]
    if state in "ZX":
        raise InjectionRefused(f"pid {pid} has ended; only its parent has not noticed yet")
    tracer = status.get("TracerPid", "0")
    if tracer != "0":
        raise InjectionRefused(f"pid {pid} is held by a debugger or tracer, pid {tracer}: end that first")
    if state == "T":
        raise InjectionRefused(
            f"pid {pid} is stopped: continue it first (kill -CONT {pid}, or fg in its shell)"
        )
    if status.get("Seccomp") == "1":
        raise InjectionRefused(f"pid {pid} runs in strict seccomp mode, where it can start no thread")


def _check_user(pid: int, status: dict[str, str]) -> None:
    owner = int(status["Uid"].split()[0])
    if os.geteuid() not in (0, owner):
        raise InjectionRefused(f"pid {pid} belongs to {_user(owner)}: run this as that user, or as root")


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _check_place(pid: int, status: dict[str, str]) -> None:
    """Raise `InjectionRefused` for a process that sees other pids or other files."""
    inner = status.get("NSpid", str(pid)).split()[-1]
    enter = f"run `jaxtop inject {inner}` inside, such as through docker exec or kubectl exec"
    if inner != str(pid):
        raise InjectionRefused(f"pid {pid} runs in a container: {enter}")
    for link in ("ns/mnt", "root"):
        with suppress(PermissionError):  # reported later, with the reason
            if _link(pid, link) != _link("self", link):
                raise InjectionRefused(
                    f"pid {pid} sees other files than this shell, as in a container: {enter}"
                )


def _link(pid: int | str, name: str) -> str:
    return os.readlink(f"/proc/{pid}/{name}")  # noqa: PTH115 - a Path would make "mnt:[1]" look like one


def scope() -> str | None:
    """Return how the kernel restricts who may trace one's own processes; None if it does not."""
    try:
        return _SCOPES.get(int(YAMA.read_text("ascii")))
    except (OSError, ValueError):
        return None


def _why_not_traced(pid: int, error: OSError) -> str:
    if os.geteuid() == 0:
        return (
            f"root may not trace pid {pid} here: in a container, start it with --cap-add SYS_PTRACE "
            f"(Kubernetes: securityContext.capabilities.add)"
        )
    if limit := scope():
        return f"this user may not trace pid {pid}: {limit}"
    return (
        f"this user may not trace pid {pid} ({error.strerror}): it has more rights, or forbids it; use sudo"
    )


def _look_inside(pid: int, status: dict[str, str], memory: symbols.ProcessMemory) -> Target:
    mapped = symbols.mappings(pid)
    program = _link(pid, "exe").removesuffix(" (deleted)")
    python = [each for each in mapped if each.path == program or each.name.startswith("libpython")]
    c_library = [each for each in mapped if re.match(r"(libc|libpthread|ld-musl)\b", each.name)]
    own = list(_images(memory, python))
    own_malloc = _find(own, "malloc")
    images = [*own, *_images(memory, c_library)]
    names = {*payload.CALLED, *payload.BORROWED, "Py_Version"}
    addresses = {name: at for name in names if (at := _find(images, name)) is not None}
    if "Py_IsInitialized" not in addresses:
        raise InjectionRefused(f"pid {pid} is not Python, or a Python without its symbols: {_command(pid)}")
    if "Py_Version" not in addresses:
        raise InjectionRefused(f"pid {pid} runs a Python older than 3.11, for which there is no agent")
    if lacking := ", ".join(sorted(names - addresses.keys())):
        raise InjectionRefused(
            f"pid {pid} has no {lacking} that can be called: its C library is part of its program"
        )
    if not any("/jaxlib/" in each.path for each in mapped):
        raise InjectionRefused(
            f"pid {pid} has not loaded JAX, so there is nothing to show yet: {_command(pid)}"
        )
    (number,) = memory.numbers("Q", addresses["Py_Version"])
    version = (number >> 24, number >> 16 & 255, number >> 8 & 255)
    return Target(
        pid,
        uid=int(status["Uid"].split()[0]),
        gid=int(status["Gid"].split()[0]),
        command=_command(pid),
        program=program,
        python=version,
        threads=int(status["Threads"]),
        ticks=processes.start_ticks(pid),
        addresses=addresses,
        code=_code(python, addresses["Py_IsInitialized"]) if own_malloc is None else [],
    )


def _images(memory: symbols.ProcessMemory, mapped: Sequence[symbols.Mapping]) -> Iterator[symbols.Image]:
    for each in mapped:
        if each.offset == 0:
            with suppress(symbols.NotElf, OSError):
                yield symbols.image(memory, each.start)


def _find(images: Sequence[symbols.Image], name: str) -> int | None:
    return next((at for each in images if (at := each.find(name)) is not None), None)


def _code(python: Sequence[symbols.Mapping], address: int) -> list[tuple[int, int]]:
    """Return where the machine code is of the file that is mapped at this address."""
    path = next(each.path for each in python if each.start <= address < each.end)
    return [(each.start, each.end) for each in python if each.path == path and "x" in each.permissions]


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return "n/a"
    return shorten(legible(" ".join(words).strip()), LONGEST_COMMAND)


def check_threads(pid: int) -> None:
    """Raise `InjectionRefused` if a thread sleeps in the kernel where nothing wakes it: it cannot stop."""
    end = time.monotonic() + ASLEEP_IN_KERNEL_S
    stuck = _uninterruptible(pid)
    while stuck and time.monotonic() < end:  # waits for a disk or for memory are short
        time.sleep(0.05)
        stuck &= _uninterruptible(pid)
    if stuck:
        raise InjectionRefused(
            f"thread {min(stuck)} of pid {pid} sleeps in the kernel (state D), as on a lost disk: "
            "it could not be stopped"
        )


def _uninterruptible(pid: int) -> set[int]:
    """Return the threads that sleep in the kernel and cannot be stopped."""
    found = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # the thread has ended
            stat = (task / "stat").read_text("utf-8", errors="replace")
            if stat.rpartition(")")[2].split()[0] == "D":
                found.add(int(task.name))
    return found
