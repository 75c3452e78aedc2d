"""Starts the agent in an interpreter that `jaxtop run` started, and in its children once they import JAX.

This file is first on the path there. Afterwards the script sees its own path, environment and sitecustomize,
as it would without this file.
"""

# Nothing else is imported here: most children never import JAX, and must not become slower.
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _boot() -> None:
    mark, inherited = os.environ.pop("JAXTOP_BOOT", ""), os.environ.get("PYTHONPATH", "")
    pid, _, settings = mark.partition(":")
    # The mark holds the pid, whether PYTHONPATH was set, its value, and the settings; see `children.py`.
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
    if pid == str(os.getpid()):
        import json

        import jaxtop_agent

        jaxtop_agent.start(**json.loads(settings))
    elif pid == "0":  # a child: its own children inherit the same
        os.putenv("JAXTOP_BOOT", mark)
        os.putenv("PYTHONPATH", inherited)
        sys.meta_path.insert(0, _BeforeJax(settings))
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401 - the user's own, hidden by ours
    except ImportError as error:
        # None marks a module as absent. Python requires an entry here after the import of this module.
        sys.modules["sitecustomize"] = None  # type: ignore[assignment]
        if error.name != "sitecustomize":
            raise


class _BeforeJax:
    """Starts the agent when this child begins to import JAX; finds no module itself."""

    def __init__(self, settings: str) -> None:
        self.jaxtop_settings = settings  # also read by `agent.start()`

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name != "jax" or self not in sys.meta_path:
            return None
        try:
            from jaxtop_agent import start_in_child

            start_in_child()
        except Exception:  # another Python than that of the parent, which has no jaxtop
            pass
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        finders = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
        found = (finder.find_spec(name, path, target) for finder in finders)
        return next((spec for spec in found if spec is not None), None)


_boot()
