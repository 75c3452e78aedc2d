"""JAX's coordination service."""

from __future__ import annotations

from jaxtop_agent.jaxprivate.lookup import imported


class Coordination:
    """This process's access to JAX's coordination service.

    Use it only once the backends are up. Before that the client exists but is not connected, and JAX 0.10
    aborts the process and its peers when an unconnected client is used.
    """

    def __init__(self) -> None:
        state = imported("jax._src.distributed").global_state
        self._client = state.client
        self.address: str | None = state.coordinator_address

    @property
    def is_there(self) -> bool:
        """Whether this process is part of a multi-process run."""
        return self._client is not None

    def set(self, key: str, value: str, *, overwrite: bool) -> None:
        """Store a small value; block, for minutes if the coordinator does not answer."""
        self._client.key_value_set(key, value, allow_overwrite=overwrite)

    def get(self, key: str, seconds: float) -> str:
        """Return a value; wait for it at most `seconds`, then raise."""
        return str(self._client.blocking_key_value_get(key, int(seconds * 1000)))

    def meet(self, name: str, seconds: float) -> None:
        """Wait until all processes have reached this barrier; raise if they do not within `seconds`."""
        self._client.wait_at_barrier(name, int(seconds * 1000))

    def entries(self, prefix: str) -> dict[str, str]:
        """Return all values under a prefix; block like `set`."""
        return dict(self._client.key_value_dir_get(prefix))
