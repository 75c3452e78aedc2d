"""The user's key: one CURVE key pair, with which agents serve and viewers attach."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from jaxtop import private

Z85 = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")
_LONGEST = 1024  # bytes of a key file


class NoKey(Exception):
    """The key cannot be had; the text says what to do."""


class KeyPair(NamedTuple):
    """A CURVE key pair in Z85."""

    public: bytes
    secret: bytes

    def __repr__(self) -> str:
        return f"KeyPair(public={self.public.decode()})"  # the secret never reaches a log or a traceback


def config_dir() -> Path:
    """The folder of the user's settings."""
    try:
        base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    except RuntimeError:  # a container whose user has neither name nor HOME
        raise NoKey("there is no home folder to keep a key in; set JAXTOP_KEY_FILE or JAXTOP_KEY") from None
    return Path(base) / "jaxtop"


def load() -> KeyPair:
    """The user's key: from JAXTOP_KEY, from JAXTOP_KEY_FILE, or from the config folder, made on first use."""
    if text := os.environ.get("JAXTOP_KEY"):
        return _parse(text, "JAXTOP_KEY")
    if named := os.environ.get("JAXTOP_KEY_FILE"):
        return _read(Path(named))
    path = config_dir() / "key"
    if _is_missing(path):
        _make(path)
    return _read(path)


def authorized() -> frozenset[bytes]:
    """Public keys of colleagues who may see, but not act."""
    try:
        # Names of colleagues stand there, too, in any encoding; a key is ASCII.
        text = (config_dir() / "authorized_keys").read_text("ascii", errors="replace")
    except (OSError, NoKey):
        return frozenset()
    first_words = (line.split(maxsplit=1)[0] for line in text.splitlines() if line.strip())
    return frozenset(word.encode() for word in first_words if Z85.fullmatch(word))


def throwaway() -> KeyPair:
    """A pair made for one test or one relay."""
    import zmq  # heavy, and `jaxtop --help` has no use for it

    return KeyPair(*zmq.curve_keypair())


def _is_missing(path: Path) -> bool:
    try:
        path.stat()
    except FileNotFoundError:
        return True
    except OSError:  # reading it will say what is the matter
        pass
    return False


def _make(path: Path) -> None:
    pair = throwaway()
    try:
        private.make(path.parent)
        draft = path.with_name(private.draft_of(path.name))
        with os.fdopen(private.create(draft), "wb") as file:
            file.write(pair.secret + b"\n")
        try:
            os.link(draft, path)  # whoever comes first wins; all others read the winner's
        except FileExistsError:
            pass
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
        why = getattr(error, "strerror", None) or "it is no text"
        raise NoKey(
            f"the key {path} cannot be read ({why}); copy the run's key file there, or set JAXTOP_KEY_FILE"
        ) from error
    return _parse(text, str(path))


def _check(path: Path, found: os.stat_result) -> None:
    """Refuse a key that others can read, or change.

    The rule is that of libpq for private keys: 0600 at most; 0640 at most where root owns the file. So
    root decides which group is trusted, as with a Kubernetes Secret in a pod that has an fsGroup.
    """
    if found.st_uid == 0:
        allowed, remedy = 0o640, f"chmod 600 {path} (of a Kubernetes Secret: defaultMode: 0400)"
    else:
        allowed, remedy = 0o600, f"chmod 600 {path}"
    if found.st_mode & 0o077 & ~allowed:
        raise NoKey(f"the key {path} is open to others; run: {remedy}")


def _parse(text: str, source: str) -> KeyPair:
    import zmq  # heavy, and `jaxtop --help` has no use for it

    secret = text.strip()
    try:
        if Z85.fullmatch(secret):
            return KeyPair(zmq.curve_public(secret.encode()), secret.encode())
    except zmq.ZMQError:  # of the right form, and yet no number that it can be
        pass
    raise NoKey(
        f"{source} does not hold a jaxtop key (40 characters of Z85); copy it again from the run's user"
    )
