"""Files and folders of the user alone: 0600 and 0700 whatever the umask, never through a stranger's link."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE, FOLDER = 0o600, 0o700
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Foreign(PermissionError):
    """A folder that belongs to another user."""


def create(path: Path | str, *, folder: int | None = None) -> int:
    """Create a file that was not there, and return its descriptor. A name, if a folder is given."""
    fd = os.open(path, _NEW, FILE, dir_fd=folder)
    os.fchmod(fd, FILE)  # a umask may have taken the owner's own bits
    return fd


def make(folder: Path) -> None:
    """Create this folder and those above it that are missing; leave those that exist as they are."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        try:
            each.mkdir(FOLDER)
        except FileExistsError:  # another process was faster
            continue
        if each.stat().st_mode & FOLDER != FOLDER:
            each.chmod(FOLDER)


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    """Create one of our folders where it is missing, and open it; `Foreign` if it is another user's.

    Work relative to the descriptor: in a shared place the path may name another folder a moment later.
    Root's folders are accepted: an administrator may provide one. Others lose their permissions in a folder
    of the user.
    """
    make(folder)
    at = folder.lstat()
    _check(folder, at)  # also a link: whoever made it may turn it elsewhere
    follow = 0 if stat.S_ISLNK(at.st_mode) else os.O_NOFOLLOW
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | follow)
    try:
        found = os.fstat(fd)
        _check(folder, found)
        if found.st_uid == os.getuid() and found.st_mode & 0o077:
            os.fchmod(fd, FOLDER)
        yield fd
    finally:
        os.close(fd)


def _check(folder: Path, found: os.stat_result) -> None:
    if found.st_uid not in (0, os.getuid()):
        raise Foreign(errno.EACCES, f"it belongs to user {found.st_uid}", str(folder))


def write(folder: Path, name: str, content: bytes) -> None:
    """Write a file of one of our folders; readers see the old content or the new, never half of it."""
    with opened(folder) as where:
        draft = draft_of(name)
        fd = create(draft, folder=where)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(content)
            os.replace(draft, name, src_dir_fd=where, dst_dir_fd=where)
        except BaseException:
            with suppress(OSError):
                os.unlink(draft, dir_fd=where)
            raise


def read(path: Path) -> bytes:
    """The content of a regular file of this user; `Foreign` for other owners."""
    # A FIFO would be waited for without end.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        if found.st_uid != os.getuid() or not stat.S_ISREG(found.st_mode):
            raise Foreign(errno.EACCES, "it is no file of yours", str(path))
        return file.read()


def is_ours(folder: Path) -> bool:
    """Whether this folder is there, and neither it nor the link to it belongs to another user."""
    try:
        _check(folder, folder.lstat())
        _check(folder, folder.stat())
    except OSError:
        return False
    return folder.is_dir()


def draft_of(name: str) -> str:
    """A name for a file that will get this name; nobody can guess it."""
    return f".{name}.{secrets.token_hex(8)}"
