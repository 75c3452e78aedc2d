"""The identity of a process, its events, and its end."""

from __future__ import annotations

from msgspec import Struct

from jaxtop.wire.bounds import AgentId, Count, IntervalMs, Process, TimeMs, WireInteger  # noqa: TC001 - msgspec reads the annotations
from jaxtop.wire.stacks import Place  # noqa: TC001 - msgspec reads the annotations

# The role of the process that started the others of its family, if nobody says another one.
MAIN_ROLE = "main"


class Device(Struct, frozen=True, omit_defaults=True):
    """A device as JAX names it; only the process's own devices are listed.

    `uuid` is the driver's name of the hardware, where figures are read from the driver.
    """

    id: WireInteger
    kind: str
    platform: str
    local_id: WireInteger | None = None
    coords: tuple[WireInteger, ...] | None = None
    core_on_chip: WireInteger | None = None
    slice_index: WireInteger | None = None
    uuid: str | None = None


class Hello(Struct, frozen=True, omit_defaults=True, tag="hello"):
    """The identity of an agent. Sent on start, to each new viewer, and whenever any of it changes.

    `peak_flops` is the peak rate of each device, as given by the run's owner. `clock_offset_ms` is how far
    the clock of process 0 is ahead of this one, to a tenth of a second; None if they were not compared.
    `flags` are those of XLA and settings of JAX that change programs; None from older agents. `job` is the
    number that the scheduler of the cluster gave the job. `simulated_limit_bytes` is the limit of the memory
    of each device that its owner set where the devices report none. Processes that belong together, because
    one of them has started the others, have the same `family`; `parent_pid` is None in the first of them.
    `role` is what the process is for there, as the script says or as the agent guesses; `role_number` is the
    number at the end of the name that the script gave the process.
    """

    agent: AgentId
    hostname: str
    pid: WireInteger
    process_started_ticks: WireInteger | None
    boot: str
    pid_namespace: str
    started_ms: TimeMs
    telemetry: str
    requests: str
    interval_ms: IntervalMs
    jaxtop: str
    python: str
    argv: tuple[str, ...] = ()
    name: str | None = None
    run: str | None = None
    process_index: Process | None = None
    process_count: Process | None = None
    jax: str | None = None
    jaxlib: str | None = None
    platform: str | None = None
    devices: tuple[Device, ...] = ()
    sources: dict[str, str] = {}
    peak_flops: WireInteger | None = None
    clock_offset_ms: WireInteger | None = None
    flags: dict[str, str] | None = None
    job: str | None = None
    simulated_limit_bytes: WireInteger | None = None
    family: AgentId | None = None
    role: str | None = None
    is_role_guessed: bool = False
    parent_pid: WireInteger | None = None
    role_number: Count | None = None


class Compile(Struct, frozen=True, omit_defaults=True, tag="compile"):
    """A compilation that ended; `why` is what made it necessary, for a function that was compiled before."""

    at_ms: TimeMs
    function: str
    duration_ms: WireInteger
    why: str = ""


class Event(Struct, frozen=True, omit_defaults=True, tag="event"):
    """Something that a person should know."""

    at_ms: TimeMs
    severity: str
    kind: str
    text: str


class Uncaught(Struct, frozen=True, array_like=True):
    """The exception that ended a script: its type, its message, and the last line of the script in it.

    `function` is the compiled function whose launch raised it; empty where that is unknown.
    """

    type: str
    message: str = ""
    place: Place | None = None
    function: str = ""


# The exit status of a script that the user interrupted, as shells show it.
INTERRUPTED = 130


# The reason of the last message where the script has ended, and where the agent has ended it because the
# whole run was stuck; with any other reason the script goes on.
SCRIPT_ENDED, STUCK = "ended", "stuck"
ENDINGS = frozenset({SCRIPT_ENDED, STUCK})
# The exit status of a process that its agent has ended. Kubeflow's operators restart it under the policy
# `ExitCode`, for which it means: retry, says the program. Python, shells and ssh do not use it.
STUCK_STATUS = 138


class Bye(Struct, frozen=True, omit_defaults=True, tag="bye"):
    """The last message of an agent; that nothing follows is not an alarm.

    `status` is the exit status of the script; None where it is unknown.
    """

    at_ms: TimeMs
    reason: str
    error: Uncaught | None = None
    status: WireInteger | None = None
