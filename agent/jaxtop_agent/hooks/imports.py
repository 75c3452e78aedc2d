"""Runs code when a module has been imported, without a thread and without importing the module."""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def when_imported(name: str, then: Callable[[], None]) -> Callable[[], None]:
    """Call `then` once `name` has been imported, or at once if it already is; return a function that cancels.

    `then` runs on the thread that imports the module, and must not raise.
    """
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        then()
        return lambda: None
    finder = _Finder(name, then)
    sys.meta_path.insert(0, finder)
    return finder.remove


class _Finder(MetaPathFinder):
    """A finder that asks the other finders and wraps the loader that they return."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name = name
        self._then = then

    def remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self)
                return spec
        return None

    def arrived(self) -> None:
        self.remove()
        self._then()


class _Loader(Loader):
    """A loader that restores the original loader, loads with it, and then notifies the finder."""

    def __init__(self, original: Loader, finder: _Finder) -> None:
        self._original = original
        self._finder = finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._original.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._original
        if module.__spec__ is not None:
            module.__spec__.loader = self._original
        self._original.exec_module(module)
        self._finder.arrived()


# Python removes the import machinery from tracebacks. With this file name it also removes our frame when
# `import jax` fails.
_Loader.exec_module.__code__ = _Loader.exec_module.__code__.replace(
    co_filename="<frozen importlib._bootstrap_external>"
)
