"""Recognition of values that may be secrets of the script: they are never sent."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


def _later(pattern: str, flags: int = 0) -> Callable[[], re.Pattern[str]]:
    """Return a function that compiles an expression when it is first used, not while `agent.start()` runs."""
    return cache(lambda: re.compile(pattern, flags))


# A name is judged by its whole words: `hf_token` is hidden, `tokenizer`, `keypoints` and `monkey` are shown.
_PARTS = _later(r"[A-Za-z][\w-]*")
_WORDS = _later(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# A word of this form always names a secret.
_CERTAIN = _later(
    r"passw|passcode|passphrase|secret|credential|auth(?!or(?:s|ed|ship)?$)"
    r"|^(?:pwd|pin|creds?|jwt|otp|cookies?)$|^key(?:chain|data|file|id|pair|phrase|ring|store|tab)s?$"
)
# These words may name a secret. Several words may be written as one: `apikey`, `sshkey`.
_POSSIBLE = _later(r"(?!(?:mon|don|tur|hot|sub)keys?$)([a-z]*)(?:key|token)(s?)|pass")
# Next to one of these words they do: `api_key`.
_WORDS_OF_SECRETS = """
    access account admin api aws azure bearer client decryption deploy encryption gcp github gitlab google
    gpg hf hmac huggingface license login master openai personal pgp private pypi refresh registry rsa
    service session signing slack ssh ssl tls user wandb webhook
"""
# Next to one of these, and none of the others, they do not: `key_dim`, `rng_key`, `bos_token`. These are
# words of sizes and counts, attention and layers, random numbers, parts of a text, and fields of data.
_WORDS_OF_OTHERS = """
    block budget capacity chunk count depth dim dims len length lengths limit max min num per rank seq
    sequence shape size sizes step steps total width window

    attention attn backward bias cache channels cross dropping dtype embed embedding embeddings expert
    experts features forward head heads init initializer kernel layer layers mask merging mixer norm padding
    pooling pos position positions proj projection pruning qkv query rope rotary scale shift through

    dropout noise params prng random rng rngs sampling shuffle

    additional begin boi bos class cls context decoder encoder end eoi eos eot extra first forced generated
    last next pad prefix prompt sep special start suffix timestamps type types unk vocab

    audio axes axis batch caption column example feature foreign group idx image images index indices input
    inputs label labels loss metric metrics monitor output outputs primary sort source target targets task
    text video
"""
_OF_SECRETS, _OF_OTHERS = frozenset(_WORDS_OF_SECRETS.split()), frozenset(_WORDS_OF_OTHERS.split())
# A text that begins like this, or contains a random key, is a secret under any name.
_ISSUED = _later(
    r"(?:hf_|[spr]k[-_]|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|AKIA|ASIA|AIza|ya29\.|npm_|pypi-|dckr_pat_|eyJ|SG\."
    r"|nvapi-)[\w.-]{16}"
)
_RANDOM = _later(r"(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z\d]{20}")
# The user and the password in an address, and what follows a name in a message.
_IN_ADDRESS = _later(r"://[^/@\s]+@")
_ASSIGNED = _later(
    r"""(?<![\w.-])([\w.-]+)(?:["']?\]?\s*[=:]\s*)("[^"]*"?|'[^']*'?|(?:bearer\s+)?[^\s,;)\]}]+)""",
    re.IGNORECASE,
)
_BEARER = _later(r"(\bbearer\s+)[\w.~+/=-]+", re.IGNORECASE)


_EXPRESSIONS = (
    _PARTS, _WORDS, _CERTAIN, _POSSIBLE, _ISSUED, _RANDOM, _IN_ADDRESS, _ASSIGNED, _BEARER
)  # fmt: skip


def prepare() -> None:
    """Compile all expressions on a thread of the agent, so that the script does not wait for them."""
    for each in _EXPRESSIONS:
        each()


class _Part(NamedTuple):
    """The evidence that a part of a name, such as a field or the key of a dict, gives about its value."""

    is_certain: bool = False
    is_possible: bool = False
    ends_certainly: bool = False  # the last word names a secret
    ends_possibly: bool = False


def is_hidden_text(name: str) -> bool:
    """Return whether a text of this name may be a secret."""
    return any(part.is_possible for part in _parts(name))


def is_hidden_number(name: str) -> bool:
    """Return whether a number of this name may be a secret; `max_tokens` and `num_kv_heads` are sizes."""
    parts = _parts(name)
    return any(part.ends_certainly for part in parts) or (bool(parts) and parts[-1].ends_possibly)


def looks_secret(text: str) -> bool:
    """Return whether a text looks like a secret under any name."""
    return bool(_ISSUED().match(text) or _RANDOM().search(text))


def without_secrets(message: str) -> str:
    """Return a message without passwords in addresses and values assigned to names of secrets."""
    message = _IN_ADDRESS().sub("://…@", message)
    done, at = "", 0
    while found := _ASSIGNED().search(message, at):
        value = found.start(2)
        is_hidden = _is_hidden_in_message(found[1])
        done += message[at:value] + ("…" if is_hidden else "")
        at = found.end() if is_hidden else value
    return _BEARER().sub(r"\1…", done + message[at:])


def _is_hidden_in_message(name: str) -> bool:
    """Return whether this name is that of a secret; messages often mention the keys of a dict."""
    parts = _parts(name)
    return any(part.is_certain or (part.is_possible and "token" in name.lower()) for part in parts)


def _parts(name: str) -> list[_Part]:
    return [_judged(each) for each in _PARTS().findall(name)]


@lru_cache(maxsize=4096)
def _judged(part: str) -> _Part:
    words = [word.lower() for word in _WORDS().findall(part)]
    certain = [bool(_CERTAIN().search(word)) for word in words]
    possible = [_POSSIBLE().fullmatch(word) for word in words]
    beside = {*words, *(found[1] for found in possible if found is not None)}
    is_any = any(possible)
    is_certain = any(certain) or (is_any and not beside.isdisjoint(_OF_SECRETS))
    is_possible = is_certain or (is_any and beside.isdisjoint(_OF_OTHERS))
    return _Part(
        is_certain,
        is_possible,
        bool(words) and certain[-1],
        is_possible and possible[-1] is not None and not possible[-1][2],
    )
