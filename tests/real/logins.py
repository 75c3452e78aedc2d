"""Logins by SSH to this machine, or to a network namespace of it, through an sshd of their own."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.support import eventually, free_port, run

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
needs_sshd = pytest.mark.skipif(
    not (SSHD and shutil.which("ssh-keygen")), reason="sshd is not installed here"
)


@contextmanager
def sshd(folder, address="127.0.0.1", there=(), here=(), sets=()):
    """Yield the words of an `ssh` that logs in at an address.

    `there` and `here` are the words that run a command where the sshd and the ssh run; `sets` are variables
    of each login.
    """
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    shutil.copy(folder / "user.pub", folder / "authorized")
    port = free_port()
    settings = (
        *(f"Port {port}", f"ListenAddress {address}", f"HostKey {folder}/host"),
        *(f"AuthorizedKeysFile {folder}/authorized", "PermitRootLogin yes"),
        *("PidFile none", "UsePAM no", "StrictModes no"),
        *([f"SetEnv {' '.join(sets)}"] if sets else []),
    )
    (folder / "config").write_text("".join(f"{each}\n" for each in settings))
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    with (folder / "log").open("w") as log:
        server = subprocess.Popen([*there, SSHD, "-D", "-e", "-f", folder / "config"], stderr=log)
    options = (
        "StrictHostKeyChecking=no",
        f"UserKnownHostsFile={folder}/known",
        "BatchMode=yes",
        "LogLevel=ERROR",
    )
    words = ["ssh", "-F", "none", "-i", str(folder / "user"), "-p", str(port)]
    words += [word for option in options for word in ("-o", option)] + [f"{getpass.getuser()}@{address}"]
    try:
        eventually(lambda: run(*here, *words, "true").returncode == 0)
        yield words
    finally:
        for each in psutil.Process(server.pid).children(recursive=True):
            each.kill()
        server.kill()
        server.wait()
