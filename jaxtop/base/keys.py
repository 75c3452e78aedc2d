"""The user's key: one CURVE key pair, which agents serve with and viewers attach with."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from jaxtop.base import private

Z85 = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")
_LONGEST = 1024  # bytes of a key file


class NoKey(Exception):
    """The key is not available; the text says what to do."""


class KeyPair(NamedTuple):
    """A CURVE key pair in Z85."""

    public: bytes
    secret: bytes

    def __repr__(self) -> str:
        return f"KeyPair(public={self.public.decode()})"  # keeps the secret out of logs and tracebacks


def config_dir() -> Path:
    try:
        base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    except RuntimeError:  # a container whose user has neither name nor HOME
        raise NoKey("there is no home folder to keep a key in; set JAXTOP_KEY_FILE or JAXTOP_KEY") from None
    return Path(base) / "jaxtop"


def load() -> KeyPair:
    """Return the user's key from JAXTOP_KEY, JAXTOP_KEY_FILE or the config folder, in this order.

    The key in the config folder is made on first use.
    """
    if text := os.environ.get("JAXTOP_KEY"):
        return _parse(text, "JAXTOP_KEY")
    if named := os.environ.get("JAXTOP_KEY_FILE"):
        return _read(Path(named))
    path = config_dir() / "key"
    if _is_missing(path):
        _make(path)
    return _read(path)


def authorized() -> frozenset[bytes]:
    """Return the public keys of colleagues, who may view, but not act."""
    try:
        # The file also contains names of colleagues, in any encoding; a key is ASCII.
        text = (config_dir() / "authorized_keys").read_text("ascii", errors="replace")
    except (OSError, NoKey):
        return frozenset()
    first_words = (line.split(maxsplit=1)[0] for line in text.splitlines() if line.strip())
    return frozenset(word.encode() for word in first_words if Z85.fullmatch(word))


def throwaway() -> KeyPair:
    """Return a new pair for one test or one relay."""
    import zmq  # heavy, and `jaxtop --help` does not need it

    return KeyPair(*zmq.curve_keypair())


def _is_missing(path: Path) -> bool:
    try:
        path.stat()
    except FileNotFoundError:
        return True
    except OSError:  # reading it reports the error
        pass
    return False


def _make(path: Path) -> None:
    pair = throwaway()
    try:
        private.make(path.parent)
        draft = path.with_name(private.draft_of(path.name))
        fd = private.create(draft)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(pair.secret + b"\n")
            with suppress(FileExistsError):
                os.link(draft, path)  # the first process wins; all others read its key
        finally:
            draft.unlink()
    except OSError as error:
        raise NoKey(f"no key could be made at {path} ({error.strerror}); set JAXTOP_KEY_FILE") from error


def _read(path: Path) -> KeyPair:
    try:
        with path.open("rb") as file:
            _check(path, os.fstat(file.fileno()))
            text = file.read(_LONGEST).decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise NoKey(
            f"the key {path} cannot be read ({why}); copy the run's key file there, or set JAXTOP_KEY_FILE"
        ) from error
    return _parse(text, str(path))


def _check(path: Path, found: os.stat_result) -> None:
    """Refuse a key that others can read or change.

    The rule is libpq's for private keys: 0600 at most; 0640 at most where root owns the file. So root decides
    which group is trusted, as with a Kubernetes Secret in a pod that has an fsGroup.
    """
    if found.st_uid == 0:
        allowed, remedy = 0o640, f"chmod 600 {path} (of a Kubernetes Secret: defaultMode: 0400)"
    else:
        allowed, remedy = 0o600, f"chmod 600 {path}"
    if found.st_mode & 0o077 & ~allowed:
        raise NoKey(f"the key {path} is open to others; run: {remedy}")


def _parse(text: str, source: str) -> KeyPair:
    import zmq  # heavy, and `jaxtop --help` does not need it

    secret = text.strip()
    try:
        if Z85.fullmatch(secret):
            return KeyPair(zmq.curve_public(secret.encode()), secret.encode())
    except zmq.ZMQError:  # the right form, but not a valid number
        pass
    raise NoKey(
        f"{source} does not contain a jaxtop key (40 characters of Z85); copy it again from the run's user"
    )
