"""The exceptions of JAX's runtime."""

from __future__ import annotations

from contextlib import suppress
from sys import getrefcount
from typing import TYPE_CHECKING, Any

from jaxtop_agent.jaxprivate.lookup import find, imported

if TYPE_CHECKING:
    from collections.abc import Callable

# This module tries the platforms one by one, and catches the errors of absent platforms.
TRIES_PLATFORMS = "jax._src.xla_bridge"
# The function that launches programs outside the fast path.
LAUNCHES_SLOWLY = "jax._src.interpreters.pxla"


class RuntimeErrors:
    """Reports each `JaxRuntimeError` when it is made, whether or not the script catches it.

    The class gets an `__init__` that calls JAX's own. It runs only if the runtime fails, so a script without
    such exceptions pays nothing.
    """

    def __init__(self, on_error: Callable[[tuple[Any, ...]], None]) -> None:
        """Call `on_error` with the arguments of each exception, on the thread that raises it."""
        self._kind = find(imported("jax.errors"), "JaxRuntimeError")
        self._own = vars(self._kind).get("__init__")  # older versions inherit it
        self._put = _Init(self._kind, self._own, on_error)

    def install(self) -> None:
        self._kind.__init__ = self._put

    def uninstall(self) -> None:
        """Restore JAX's class, unless other code has changed it since."""
        if vars(self._kind).get("__init__") is not self._put:
            return
        if self._own is None:
            del self._kind.__init__
        else:
            self._kind.__init__ = self._own


class _Init:
    """The `__init__` of the class. As an attribute, and in subclasses, it is what it would be without us."""

    def __init__(self, kind: Any, own: Any, on_error: Callable[[tuple[Any, ...]], None]) -> None:
        self._kind = kind
        self._own = own
        self._on_error = on_error
        self._fresh = _Fresh("").owners

    def __get__(self, error: Any, kind: Any = None) -> Any:
        if self._own is not None:
            make = self._own.__get__(error, kind)
        else:  # the next class may be a base class that only the subclass has
            make = super(self._kind, kind if error is None else error).__init__
        if type(error) is not self._kind:  # the runtime makes no subclasses
            return make

        def made(*args: Any, **facts: Any) -> None:
            # Unpickling and `copy.copy` pass a tuple that they hold as well.
            is_copy = _owners(error) > self._fresh
            make(*args, **facts)
            if not is_copy:
                with suppress(Exception):  # the script must get JAX's exception, not ours
                    self._on_error(args)

        return made


class _Fresh(Exception):
    """An exception that shows how many references its arguments have while it is made."""

    def __init__(self, *_: Any) -> None:
        self.owners = _owners(self)


def _owners(error: BaseException) -> int:
    return getrefcount(error.args)
