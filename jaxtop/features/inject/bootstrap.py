"""The code that `jaxtop inject` runs in the process: it starts the agent on a thread, and answers in a file.

The text of this file is sent there, because jaxtop may be missing there. Nothing in it may raise, print or
remain. It uses what JAX has imported already.
"""

from __future__ import annotations


def begin(folder: str, version: str, settings: dict[str, object], patience: float) -> None:
    """Start the thread; this may run on any thread, also between two lines of the script."""
    import _thread

    _thread.start_new_thread(_run, (folder, version, settings, patience))


def _run(folder: str, version: str, settings: dict[str, object], patience: float) -> None:
    import json
    import os

    try:
        os.rename(f"{folder}/request", f"{folder}/taken")
    except OSError:  # it was withdrawn, or came a second time
        return
    try:
        answer = _start(version, settings, patience)
    except BaseException as error:
        answer = {"state": "failed", "why": f"{type(error).__name__}: {error}"}
    try:
        with open(f"{folder}/draft", "w", encoding="utf-8") as file:
            json.dump(answer, file)
        os.rename(f"{folder}/draft", f"{folder}/answer")
    except OSError:  # nobody waits for it any more
        pass


def _start(version: str, settings: dict[str, object], patience: float) -> dict[str, object]:
    import importlib.util
    import os
    import sys
    import threading
    import time

    here = {"python": sys.executable, "home": os.environ.get("HOME", "")}
    jax = sys.modules.get("jax")
    if jax is None:
        return {**here, "state": "no jax"}
    end = time.monotonic() + patience
    while getattr(getattr(jax, "__spec__", None), "_initializing", False):
        if time.monotonic() > end:
            return {**here, "state": "importing"}
        time.sleep(0.05)
    agent = getattr(sys.modules.get("jaxtop_agent"), "_agent", None)
    if agent is not None:
        if not getattr(agent, "waits", False):
            return {**here, "state": "running"}
        agent.begin_now()
        return {**here, "state": "started"}
    if not importlib.util.find_spec("jaxtop"):
        importlib.invalidate_caches()  # it may have been installed a moment ago
    if not (importlib.util.find_spec("jaxtop") and importlib.util.find_spec("jaxtop_agent")):
        return {**here, "state": "missing"}
    from jaxtop._version import __version__

    if __version__ != version:
        return {**here, "state": "version", "version": __version__}
    from jaxtop.base.forks import ForkLock

    # A child that is forked during an import would wait for that import forever.
    importing = ForkLock()
    os.register_at_fork(before=importing.hold, after_in_parent=importing.go_on)
    with importing.lock:
        import jaxtop_agent
        from jaxtop_agent.core import settings as agent_settings

        jaxtop_agent.start(**settings)  # type: ignore[arg-type]
        if jaxtop_agent._agent is not None:
            jaxtop_agent._agent.begin_now()
    # A module that the agent imports registers the thread that imports it, and a script would meet it.
    dummy = threading._active.get(threading.get_ident())  # type: ignore[attr-defined]
    if isinstance(dummy, threading._DummyThread):
        del threading._active[threading.get_ident()]  # type: ignore[attr-defined]
    if jaxtop_agent._agent is not None:
        return {**here, "state": "started"}
    is_on = agent_settings.read(None, None, None).is_on
    return {**here, "state": "failed" if is_on else "off", "why": "agent.start() did nothing"}
