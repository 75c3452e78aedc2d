"""What may be a secret of the script: it is never sent."""

from __future__ import annotations

import re

# A text is hidden if any part of its name says that it may be a secret. A number only if the last word of its
# name does: `max_tokens` and `num_key_value_heads` are sizes.
_OF_TEXTS = re.compile("token|key|secret|passw|auth|cred", re.IGNORECASE)
_OF_NUMBERS = re.compile(
    r"(?:^|[^A-Za-z]|(?<=[a-z])(?=[A-Z]))"
    r"(?i:token|(?:api)?key|secret|passw(?:or)?d|passcode|passphrase|pwd|pin|auth|credentials?)[^A-Za-z]*$"
)
# The user and the password in an address, and what follows such a name in a message.
_IN_ADDRESS = re.compile(r"://[^/@\s]+@")
_ASSIGNED = re.compile(
    r"""((?:passw(?:or)?d|passcode|passphrase|pwd|secret|token|api[_-]?key|credentials?)[\w.-]*["']?\]?\s*[=:]\s*)"""
    r"""("[^"]*"?|'[^']*'?|(?:bearer\s+)?[^\s,;)\]}]+)""",
    re.IGNORECASE,
)
_BEARER = re.compile(r"(\bbearer\s+)[\w.~+/=-]+", re.IGNORECASE)


def is_hidden_text(name: str) -> bool:
    """Return whether a text of this name may be a secret."""
    return bool(_OF_TEXTS.search(name))


def is_hidden_number(name: str) -> bool:
    """Return whether a number of this name may be a secret."""
    return bool(_OF_NUMBERS.search(name))


def without_secrets(message: str) -> str:
    """Return a message without passwords in addresses, and without what is assigned to a name of secrets."""
    message = _ASSIGNED.sub(r"\1…", _IN_ADDRESS.sub("://…@", message))
    return _BEARER.sub(r"\1…", message)
