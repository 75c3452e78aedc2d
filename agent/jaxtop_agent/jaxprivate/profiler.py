"""JAX's profiler."""

from __future__ import annotations

import sys
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jaxtop.base.protobuf import bytes_field, number_field
from jaxtop_agent.jaxprivate.backends import default_client
from jaxtop_agent.jaxprivate.lookup import find, imported, named

if TYPE_CHECKING:
    from jaxtop_agent.jaxprivate.declarations import ProfileData, Session


class Profiler:
    """JAX's profiler, with checks for other uses of it in this process."""

    # jaxlib's error if another session started first.
    ALREADY = "ALREADY_EXISTS"

    def __init__(self) -> None:
        self._lib = find(imported("jax._src.lib"), "_profiler")
        self._jax = imported("jax._src.profiler")
        self.state = find(self._jax, "_profile_state")  # its `lock` guards the script's own profile
        find(self.state, "lock")
        self._session = named(self.state, "session", "profile_session")  # None while there is none
        find(find(self._lib, "ProfilerSession"), "stop")
        self._parse = find(find(imported("jax.profiler"), "ProfileData"), "from_serialized_xspace")
        self._iterators = _iterators(self._parse)
        version = find(imported("jaxlib"), "__version__").split(".")
        self._version = (int(version[0]), int(version[1]))

    @property
    def is_noisy(self) -> bool:
        """Whether each session prints two lines to the script's standard error, as up to 0.7.2."""
        return self._version < (0, 8)

    @property
    def frees_the_gil(self) -> bool:
        """Whether stopping a session releases the GIL: 0.10 does, 0.8 does not."""
        return self._version >= (0, 10)

    def in_use(self) -> str | None:
        """Return what uses the profiler now, if anything; the caller holds the lock."""
        if getattr(self.state, self._session) is not None:
            return "the script's own profile is running"
        if self._lib.TraceMe.is_enabled():
            return "another profiler is running"
        pgle = getattr(sys.modules.get("jax._src.config"), "enable_pgle", None)
        if pgle is not None and pgle.value:
            return "profile-guided compilation uses the profiler (jax_enable_pgle)"
        return None

    def has_server(self) -> bool:
        """Whether a profile can be requested from outside the process, which takes no lock."""
        return getattr(self._jax, "_profiler_server", None) is not None

    def start(self) -> Session:
        """Start a session, which traces everything that runs from now on."""
        # The level that contains the operations of CPUs. On accelerators the host only launches them, and the
        # next level has all threads through which a launch is handed on.
        client = default_client()
        is_enough = self._version >= (0, 10) and getattr(client, "platform", None) == "cpu"
        return self._started(host_level=1 if is_enough else 2, with_programs=False)

    def start_full(self) -> Session:
        """Start a session whose trace has what XProf shows, such as programs, but not Python's calls."""
        return self._started(host_level=2, with_programs=True)

    def _started(self, *, host_level: int, with_programs: bool) -> Session:
        options = find(self._lib, "ProfileOptions")()
        options.python_tracer_level = 0
        options.host_tracer_level = host_level
        options.enable_hlo_proto = with_programs
        options.raise_error_on_start_failure = True
        return self._lib.ProfilerSession(options)

    def stop(self, session: Session) -> bytes:
        """End the session and return the trace in the profiler's own format."""
        return bytes(session.stop())

    def parse(self, raw: bytes) -> ProfileData:
        """Return the content of a trace; this holds the GIL."""
        return self._parse(raw)


def _iterators(parse: Any) -> list[Any]:
    """Return one iterator of each type of JAX's reader, over a trace of one event.

    JAX makes such a type anew whenever no iterator of it is left. Since Python 3.12 that gives a deprecation
    warning, and aborts the process of a script that turns warnings into errors. So the types are made here,
    while this one warning is off, and the caller keeps the iterators, and with them the types.
    """
    from jaxtop.traces import xspace  # `loading` has imported it; `agent.start()` waits for this module

    stat = number_field(xspace.STAT_OF, 1) + number_field(xspace.SIGNED, 1)
    event = number_field(xspace.EVENT_OF, 1) + bytes_field(xspace.STAT, stat)
    plane = bytes_field(xspace.LINE, bytes_field(xspace.EVENT, event))
    for names in (xspace.EVENT_NAME, xspace.STAT_NAME):
        entry = number_field(xspace.KEY, 1) + bytes_field(xspace.VALUE, number_field(xspace.ID, 1))
        plane += bytes_field(names, entry)
    filters: Any = warnings.filters  # a list
    before = filters[:1]
    warnings.filterwarnings("ignore", "builtin type .* has no __module__", DeprecationWarning)
    added = [each for each in filters[:1] if each not in before]
    try:
        profile: ProfileData = parse(bytes_field(xspace.PLANE, plane))
        planes = iter(profile.planes)
        lines = iter(next(planes).lines)
        events = iter(next(lines).events)
        return [planes, lines, events, iter(next(events).stats), iter(next(iter(profile.planes)).stats)]
    finally:
        # Only this filter: a copy of the list would lose what another thread changes meanwhile.
        for each in added:
            with suppress(ValueError):
                filters.remove(each)
