"""Files and folders of the user alone: 0600 and 0700 whatever the umask, and no links of other users."""

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
    """A folder or file that belongs to another user."""


def create(path: Path | str, *, folder: int | None = None) -> int:
    """Create a new file, and return its descriptor. With `folder`, the path is a name in that folder."""
    fd = os.open(path, _NEW, FILE, dir_fd=folder)
    os.fchmod(fd, FILE)  # the umask may have removed the owner's own bits
    return fd


def append(path: Path | str) -> int:
    """Open a file of this user for appending, created if it is missing, and return its descriptor.

    Raise `Foreign` for links, files of other users, and what is not a regular file.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, FILE)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise Foreign(errno.ELOOP, "it is a link", str(path)) from None
    try:
        _check_file(path, os.fstat(fd))
        os.fchmod(fd, FILE)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check_file(path: Path | str, found: os.stat_result) -> None:
    # A second name of the file may be one that another user gave it.
    if found.st_uid != os.getuid() or not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        raise Foreign(errno.EACCES, "it is no file of yours", str(path))


def make(folder: Path) -> None:
    """Create this folder and its missing parents; leave existing ones as they are."""
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
    """Create one of our folders if it is missing, and open it; raise `Foreign` if it is another user's.

    Work relative to the descriptor: in a shared place the path may name another folder a moment later. Root's
    folders are accepted: an administrator may provide one. In a folder of the user, the permissions of others
    are removed.
    """
    make(folder)
    at = folder.lstat()
    _check(folder, at)  # a link, too: its owner may redirect it
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
    """Write a file in one of our folders; readers see the old content or the new, never a part of it."""
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
    """Return the content of a regular file of this user; raise `Foreign` for other owners."""
    # O_NONBLOCK, because opening a FIFO would wait forever.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        if found.st_uid != os.getuid() or not stat.S_ISREG(found.st_mode):
            raise Foreign(errno.EACCES, "it is not your file", str(path))
        return file.read()


def is_ours(folder: Path) -> bool:
    """Return whether this folder exists, and neither it nor a link to it belongs to another user."""
    try:
        _check(folder, folder.lstat())
        _check(folder, folder.stat())
    except OSError:
        return False
    return folder.is_dir()


def draft_of(name: str) -> str:
    """Return an unpredictable name for the draft of a file."""
    return f".{name}.{secrets.token_hex(8)}"
