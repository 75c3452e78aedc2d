"""The clients of the backends, their devices and memory, and the service that connects processes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from jaxtop_agent.jaxprivate.lookup import Missing, find, imported

if TYPE_CHECKING:
    from jaxtop_agent.jaxprivate.declarations import Client, Device


def default_client() -> Client | None:
    """Return the client of the default backend; None until all backends are up. Never wait for them."""
    bridge = imported("jax._src.xla_bridge")
    check = getattr(sys.modules.get("jax._src.config"), "debug_leaked_clients_on_clear_backends", None)
    if check is not None and check.value:
        # While we use the client, we hold a reference to it, and JAX would raise in a script that clears its
        # backends.
        raise Missing("jax_debug_leaked_clients_on_clear_backends is set: nobody may hold a client of JAX")
    lock = getattr(bridge, "_backend_lock", None)
    # `backends_are_initialized()` would wait for a lock that a slow initialisation holds for minutes.
    if not bridge._backends or (lock is not None and lock.locked()):
        return None
    return bridge._default_backend


def has_backends() -> bool:
    """Whether JAX has made backends; never waits for them."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bool(getattr(bridge, "_backends", None))


def clients() -> tuple[Client, ...]:
    return tuple(imported("jax._src.xla_bridge")._backends.values())


def local_devices(owner: Client) -> list[Device]:
    """Return the devices of a client or a program that belong to this process."""
    return list(find(owner, "local_devices")())


def process_index(client: Client) -> int:
    return int(find(client, "process_index")())


def process_count(client: Client) -> int:
    return len({device.process_index for device in find(client, "devices")()})


def hardware_ordinal(device: Device) -> int | None:
    """Return the number of a device in the platform's runtime in this process, such as CUDA's ordinal."""
    ordinal = getattr(device, "local_hardware_id", None)
    return ordinal if isinstance(ordinal, int) and ordinal >= 0 else None


def default_memory(device: Device) -> str | None:
    """Return the kind of memory in which a device places arrays by default."""
    try:
        return str(device.default_memory().kind)
    except Exception:  # backends without memory spaces
        return None


def memory_stats(device: Device) -> dict[str, int] | None:
    """Return the allocator's figures for a local device; None if its allocator does not count.

    Backends that are no PjRt clients, such as Pathways, raise; others return None, as the CPU's and the GPU's
    allocators `platform` and `vmm` do. A figure that a plugin does not have is -1
    (`PjRtCApiDevice::GetAllocatorStats` in openxla/xla): it is left out.

    So is the limit of CUDA's asynchronous allocator, which alone among those of GPUs reports no pool: it is
    the size from which free memory goes back to the driver, and allocations may go beyond
    (`gpu_cudamallocasync_allocator.cc`).
    """
    try:
        stats = device.memory_stats()
    except Exception:
        return None
    found = {key: value for key, value in (stats or {}).items() if value >= 0}
    if "pool_bytes" not in found and getattr(device, "platform", "") == "gpu":
        found.pop("bytes_limit", None)
    return found or None


def expected() -> tuple[int | None, int | None]:
    """Return the index and the number of processes of the run that this process joins, before it has.

    None if it joins none. The client itself is not used: see `Coordination`.
    """
    state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    index, count = getattr(state, "process_id", None), getattr(state, "num_processes", None)
    if getattr(state, "client", None) is None or not isinstance(index, int) or not isinstance(count, int):
        return None, None
    return (index, count) if 0 <= index < count else (None, None)


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

    def remove(self, key: str) -> None:
        self._client.key_value_delete(key)

    def meet(self, name: str, seconds: float) -> None:
        """Wait until all processes have reached this barrier; raise if they do not within `seconds`."""
        self._client.wait_at_barrier(name, int(seconds * 1000))

    def entries(self, prefix: str) -> dict[str, str]:
        """Return all values under a prefix; block like `set`."""
        return dict(self._client.key_value_dir_get(prefix))
