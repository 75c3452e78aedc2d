"""The exceptions of JAX's runtime."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jaxtop_agent.jaxprivate.lookup import find, imported

if TYPE_CHECKING:
    from collections.abc import Callable


class RuntimeErrors:
    """Reports each `JaxRuntimeError` when it is made, whether or not the script catches it.

    The class gets an `__init__` that calls JAX's own. It runs only if the runtime fails, so a script without
    such exceptions pays nothing.
    """

    def __init__(self, on_error: Callable[[tuple[Any, ...]], None]) -> None:
        """Call `on_error` with the arguments of each exception, on the thread that raises it."""
        self._kind = find(imported("jax.errors"), "JaxRuntimeError")
        self._own = vars(self._kind).get("__init__")  # older versions inherit it
        make = self._kind.__init__

        def made(error: Any, *args: Any, **facts: Any) -> None:
            make(error, *args, **facts)
            with suppress(Exception):  # the script must get JAX's exception, not ours
                on_error(args)

        self._put = made

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
