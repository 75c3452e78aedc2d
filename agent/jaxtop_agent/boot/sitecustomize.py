"""Starts the agent in an interpreter that `jaxtop run` started, where this file is first on the path.

Afterwards the script sees its own path, environment and sitecustomize, as it would without this file.
"""


def _boot() -> None:
    import os
    import sys

    mark = os.environ.pop("JAXTOP_BOOT", "")
    pid, _, settings = mark.partition(":")
    # The mark holds the pid, whether PYTHONPATH was set, its value, and the settings.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    sys.path_importer_cache.pop(here, None)
    had_path, _, settings = settings.partition(":")
    path, _, settings = settings.partition("\n")
    if had_path == "1":
        os.environ["PYTHONPATH"] = path
    elif mark:
        os.environ.pop("PYTHONPATH", None)
    del sys.modules["sitecustomize"]
    if pid == str(os.getpid()):  # not in a process that merely inherited the environment
        import json

        import jaxtop_agent

        jaxtop_agent.start(**json.loads(settings))
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401 - the user's own, hidden by ours
    except ImportError as error:
        # None marks a module as absent. Python requires an entry here after the import of this module.
        sys.modules["sitecustomize"] = None  # type: ignore[assignment]
        if error.name != "sitecustomize":
            raise


_boot()
