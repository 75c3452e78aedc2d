"""What each process of the demo does besides training: it joins the others, and leaves with them."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from pathlib import Path

from jaxtop import agent

LEAVE_WITHIN = 3.0  # seconds
STAY = 60.0  # seconds


def join_the_others(process: int, processes: int, coordinator: str) -> None:
    import jax

    jax.distributed.initialize(
        coordinator,
        processes,
        process,
        # Otherwise the coordinator listens on every address of the machine.
        coordinator_bind_address=coordinator,
        # Otherwise a demo started inside a Slurm or MPI job would use the process numbers of that job.
        cluster_detection_method="deactivate",
        # A user may stop a host on purpose, for longer than jax waits by default.
        heartbeat_timeout_seconds=600,
    )


def leave_on_signals(joined: threading.Event, leaving: threading.Event) -> None:
    """Make Ctrl-C and SIGTERM end the process quietly, whatever its main thread does.

    The main thread may be inside a collective that the other processes have left, and would never handle the
    signal. And jax treats SIGTERM as a notice of preemption, and continues. So a thread waits for both
    signals.
    """
    signals = (signal.SIGINT, signal.SIGTERM)
    # This comes before other threads start: they inherit the mask, and any of them might get the signal.
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)

    def leave() -> None:
        number = signal.sigwait(signals)
        leaving.set()
        agent.stop()
        if joined.is_set():
            # The processes leave together, if all got the signal: when process 0 leaves first, jax aborts
            # the rest.
            farewell = threading.Thread(target=_part_from_the_others, daemon=True)
            farewell.start()
            farewell.join(LEAVE_WITHIN)
        os._exit(128 + number)

    threading.Thread(target=leave, name="signals", daemon=True).start()


def _part_from_the_others() -> None:
    import jax

    with contextlib.suppress(Exception):
        jax.distributed.shutdown()


def stay_after(error: Exception, duration: float | None) -> None:
    """Keep this process alive for a while after another one was lost, so that the user can inspect it."""
    import jax

    if not isinstance(error, jax.errors.JaxRuntimeError):
        return
    process = jax.process_index()
    print(f"process {process}: training broke off: {error}".splitlines()[0], file=sys.stderr, flush=True)
    # Process 0 exits last, because jax aborts the rest when it exits.
    time.sleep(min(STAY, duration or STAY) + (LEAVE_WITHIN if process == 0 else 0))
    agent.stop()
    # A normal exit would wait for the lost process until jax aborts it after minutes.
    os._exit(1)


def keep_standard_output() -> None:
    """Keep standard output for our lines: Gloo prints every connection there, and no option prevents it."""
    sys.stdout = os.fdopen(os.dup(1), "w", closefd=False)
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)


def prepare_environment(devices: int) -> None:
    flags = os.environ.get("XLA_FLAGS", "")
    if "--xla_force_host_platform_device_count" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={devices}".strip()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    # The demo connects only within this machine; through a proxy its processes would never find each other.
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        del os.environ[name]
