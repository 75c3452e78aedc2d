"""Stacks as JSON: the main thread, and other threads with native frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jaxtop.base.times import timestamp
from jaxtop.model.stalls.native import innermost_first
from jaxtop.model.stalls.stacks import place_text

if TYPE_CHECKING:
    from jaxtop.model import Host
    from jaxtop.wire import NativeStack


def as_value(host: Host) -> dict[str, Any] | None:
    """Return the last stacks of a process, innermost frames first; None if there are none."""
    stacks = host.stacks
    if not stacks.threads:
        return None
    threads = [each for each in stacks.threads if each.is_main or each.native is not None]
    return {
        "at": timestamp(stacks.at_ms / 1000),
        "thread_count": len(stacks.threads),
        "waits_in": stacks.telling.waits_in or None,
        "waits_for": stacks.telling.waits_for or None,
        "threads": [
            {
                "name": each.name,
                "is_main": each.is_main,
                "frames": [place_text(frame) for frame in reversed(each.frames)],
                "native": _native(each.native),
            }
            for each in threads
        ],
    }


def _native(stack: NativeStack | None) -> dict[str, Any] | None:
    if stack is None:
        return None
    return {
        "frames": innermost_first(stack),
        "waits_in": stack.waits_in or None,
        "waits_for": stack.waits_for or None,
        "why_incomplete": stack.why_incomplete or None,
    }
