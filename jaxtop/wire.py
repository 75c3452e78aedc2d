"""The messages: what agents say and viewers ask, as frozen structs over plain MessagePack.

A message travels as three parts: its kind, a header, its payload. New fields go to the end of a struct and
have a default; unknown fields are skipped by older readers, missing ones take their default. Figures are
integers in their natural small unit, which the field's name carries; None means unknown, never 0.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

VERSION = 1

# What anybody is ready to read of one message: the roster of thousands of hosts fits, hostile peers end here.
MAX_PAYLOAD = 1024 * 1024
# What an agent sends unasked, to every viewer: a viewer's queue is counted in messages, so they are bounded.
MAX_TELEMETRY = 256 * 1024
MAX_DEVICES = 1 << 20

Ids = tuple[tuple[int, int], ...]


class Header(Struct, frozen=True, array_like=True):
    """Version of the wire, id of the agent, number of the message among those of its kind."""

    version: int
    agent: str
    sequence: int


class Device(Struct, frozen=True, omit_defaults=True):
    """A device as JAX names it; only the process's own devices are listed."""

    id: int
    kind: str
    platform: str
    local_id: int | None = None
    coords: tuple[int, ...] | None = None
    core_on_chip: int | None = None
    slice_index: int | None = None


class Hello(Struct, frozen=True, omit_defaults=True, tag="hello"):
    """Who an agent is. Sent on start, to each new viewer, and whenever any of it changes."""

    agent: str
    hostname: str
    pid: int
    process_started_ticks: int | None
    boot: str
    pid_namespace: str
    started_ms: int
    telemetry: str
    requests: str
    interval_ms: int
    jaxtop: str
    python: str
    argv: tuple[str, ...] = ()
    name: str | None = None
    run: str | None = None
    process_index: int | None = None
    process_count: int | None = None
    jax: str | None = None
    jaxlib: str | None = None
    platform: str | None = None
    devices: tuple[Device, ...] = ()
    sources: dict[str, str] = {}


class DeviceSample(Struct, frozen=True, array_like=True):
    """One column a figure, one entry a device in the order of Hello.devices; a column nobody knows: None."""

    used_bytes: tuple[int | None, ...] | None = None
    peak_bytes: tuple[int | None, ...] | None = None
    limit_bytes: tuple[int | None, ...] | None = None
    utilization_permille: tuple[int | None, ...] | None = None
    power_mw: tuple[int | None, ...] | None = None
    temperature_c: tuple[int | None, ...] | None = None
    reserved_bytes: tuple[int | None, ...] | None = None
    largest_free_bytes: tuple[int | None, ...] | None = None
    pool_bytes: tuple[int | None, ...] | None = None


class HostSample(Struct, frozen=True, array_like=True):
    """The process and its machine: CPU in permille of one core, the machine's in permille of all cores."""

    process_cpu_permille: int | None = None
    rss_bytes: int | None = None
    threads: int | None = None
    machine_cpu_permille: int | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    load_centi: int | None = None
    received_bytes_per_s: int | None = None
    sent_bytes_per_s: int | None = None


class Step(Struct, frozen=True, array_like=True):
    """What the script said of its own progress with agent.step()."""

    index: int
    calls: int
    metrics: dict[str, float] = {}


class Compiling(Struct, frozen=True, array_like=True):
    """A compilation that is running now."""

    function: str
    since_ms: int


class Cost(Struct, frozen=True, array_like=True):
    """What the agent itself takes: CPU in millionths of one core, messages it had to drop, viewers it has."""

    cpu_ppm: int | None = None
    dropped: int = 0
    viewers: int = 0


class Pulse(Struct, frozen=True, array_like=True, tag="pulse"):
    """The figures of one interval. Launch counters are totals, and only those that moved are listed."""

    at_ms: int
    sampled_ms: int | None = None
    memory_source: str | None = None
    devices: DeviceSample = DeviceSample()
    host: HostSample = HostSample()
    launches: dict[str, int] = {}
    compiling: tuple[Compiling, ...] = ()
    step: Step | None = None
    cost: Cost = Cost()


class Mesh(Struct, frozen=True, array_like=True):
    """Named axes with their sizes, and the devices in row-major order of these axes."""

    axes: tuple[tuple[str, int], ...]
    device_ids: Ids


class Sharding(Struct, frozen=True, array_like=True):
    """How arrays lie on devices: over a mesh by a spec, or simply on the devices named.

    What a device holds follows from `parts`, the axes of the mesh that cut each dimension, the slowest first;
    or, without a mesh, from `tiles`, into how many pieces each dimension is cut: the devices are then in
    row-major order of the pieces, the copies of a piece side by side. None where nobody knows.
    """

    kind: str
    spec: str
    mesh: int | None
    device_ids: Ids
    memory_kind: str | None
    parts: tuple[tuple[str, ...], ...] | None = None
    tiles: tuple[int, ...] | None = None


class ArrayGroup(Struct, frozen=True, array_like=True):
    """Live arrays that differ in nothing but their values; the bytes are those of one of them.

    Where `groups` is more than 1 it stands for so many smaller ones, and the bytes are those of all of them.
    `name` is the path by which the script reaches them from a variable of `function`, `created` the line
    that made them.
    """

    shape: tuple[int, ...]
    dtype: str
    sharding: int
    bytes_global: int
    bytes_per_device: int
    name: str | None = None
    function: str | None = None
    role: str | None = None
    created: str | None = None
    groups: int = 1


class Arrays(Struct, frozen=True, omit_defaults=True, tag="arrays"):
    """The census of live arrays, whole: groups, the largest one by one, and how many arrays each has now."""

    at_ms: int
    serial: int = 0
    number: int = 0
    meshes: tuple[Mesh, ...] = ()
    shardings: tuple[Sharding, ...] = ()
    groups: tuple[ArrayGroup, ...] = ()
    counts: tuple[int, ...] = ()


class ArraysChange(Struct, frozen=True, omit_defaults=True, tag="arrays_change"):
    """What is different since census `number - 1` of the same `serial`, by place in its lists."""

    at_ms: int
    serial: int
    number: int
    counts: tuple[tuple[int, int], ...] = ()
    groups: tuple[tuple[int, ArrayGroup], ...] = ()
    meshes: tuple[Mesh, ...] = ()
    shardings: tuple[Sharding, ...] = ()


class Program(Struct, frozen=True, array_like=True):
    """A compiled program that is loaded; what its compiler says of it, the bytes for one device.

    `devices` are those of all processes together; None where the program does not tell.
    """

    name: str
    fingerprint: str | None
    devices: int | None = None
    local_devices: int | None = None
    flops: int | None = None
    accessed_bytes: int | None = None
    argument_bytes: int | None = None
    output_bytes: int | None = None
    alias_bytes: int | None = None
    temp_bytes: int | None = None
    code_bytes: int | None = None
    created: str | None = None


class Programs(Struct, frozen=True, omit_defaults=True, tag="programs"):
    """The loaded programs, the newest first, and how often each function was compiled so far.

    `seen_ms` and `compile_ms` are columns beside `programs`: when each was first seen, and how long its
    compilation took. `rest` counts those that are not listed, `recompiling` names the functions that are
    compiled over and over now.
    """

    at_ms: int
    programs: tuple[Program, ...] = ()
    seen_ms: tuple[int, ...] = ()
    compile_ms: tuple[int | None, ...] = ()
    rest: int = 0
    compiles: dict[str, int] = {}
    recompiling: tuple[str, ...] = ()


class Compile(Struct, frozen=True, omit_defaults=True, tag="compile"):
    """A compilation that ended."""

    at_ms: int
    function: str
    duration_ms: int


class Event(Struct, frozen=True, omit_defaults=True, tag="event"):
    """Something a person should know."""

    at_ms: int
    severity: str
    kind: str
    text: str


class Bye(Struct, frozen=True, tag="bye"):
    """The agent ends in order; silence after this is no alarm."""

    at_ms: int
    reason: str


class Peer(Struct, frozen=True, omit_defaults=True):
    """One line of the roster: where the agent of a process is to be found."""

    agent: str
    process_index: int | None
    hostname: str
    pid: int
    process_started_ticks: int | None
    boot: str
    pid_namespace: str
    telemetry: str
    requests: str


class Roster(Struct, frozen=True, omit_defaults=True, tag="roster"):
    """All agents of a run, as one of them knows it. Addresses only: a peer proves itself with the key."""

    agent: str
    peers: tuple[Peer, ...]
    run: str | None = None
    name: str | None = None
    process_count: int | None = None


class Link(Struct, frozen=True, omit_defaults=True, tag="link"):
    """What the viewer's side learnt of a connection; put into the stream, so that recordings hold it too.

    States: connecting, up, closed (nobody listens), silent (the machine answers, the process does not),
    deaf (the process is there, its Python does not answer), unreachable, refused, merged (`text` is the
    agent that stands behind the address). `dead` is a process known to have ended: its own machine says so.
    """

    state: str
    endpoint: str
    text: str = ""
    boot: str = ""


class Request(Struct, frozen=True, omit_defaults=True, tag="request"):
    """What a viewer asks of one agent. `pace` acts on the run's agent, the others only look."""

    what: str
    interval_ms: int | None = None


class Reply(Struct, frozen=True, omit_defaults=True, tag="reply"):
    """The answer's first part; the messages asked for follow it."""

    what: str
    error: str = ""
    at_ms: int = 0


Message = Hello | Pulse | Arrays | ArraysChange | Programs | Compile | Event | Bye | Roster | Link
KINDS: dict[str, type[Message]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (Hello, Pulse, Arrays, ArraysChange, Programs, Compile, Event, Bye, Roster, Link)
}


# Frames that the viewer's own side made are not numbered.
LOCAL_SEQUENCE = 0


class Frame(NamedTuple):
    """A message as it was received: when, from which agent, what kind, its number, and its raw bytes."""

    at: float
    agent: str
    kind: str
    sequence: int
    raw: bytes


class Unreadable(Exception):
    """Bytes that are no message of ours; the text says what is wrong with them."""


class NewerVersion(Unreadable):
    """A message of a newer jaxtop."""


_encoder = msgspec.msgpack.Encoder()
_decoders: dict[type[Any], msgspec.msgpack.Decoder[Any]] = {
    kind: msgspec.msgpack.Decoder(kind) for kind in (*KINDS.values(), Header, Request, Reply)
}


def encode(value: Struct) -> bytes:
    """The value as MessagePack."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:  # an argument or a file name that is no Unicode must not silence the agent
        return _encoder.encode(_legible(msgspec.to_builtins(value)))


def _legible(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_legible(key): _legible(entry) for key, entry in value.items()}
    return [_legible(entry) for entry in value] if isinstance(value, list | tuple) else value


def kind_of(message: Message) -> str:
    """The kind of this message."""
    return str(message.__struct_config__.tag)


def decode(kind: str, raw: bytes) -> Message:
    """The message of this kind in these bytes."""
    message: Message = decode_as(KINDS[kind], raw)
    return message


def decode_as(struct: type[Any], raw: bytes) -> Any:
    """The struct in these bytes; `Unreadable` if they hold anything else."""
    if len(raw) > MAX_PAYLOAD:
        raise Unreadable(f"{len(raw)} bytes, more than a message may have")
    try:
        return _decoders[struct].decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Unreadable(str(error)) from None


def pack(kind: str, header: Header, payload: bytes) -> list[bytes]:
    """The three parts of a message."""
    return [kind.encode(), encode(header), payload]


def unpack(parts: list[bytes], at: float) -> Frame:
    """The frame in the three parts of a message; its payload stays undecoded."""
    if len(parts) != 3:
        raise Unreadable(f"{len(parts)} parts instead of 3")
    header: Header = decode_as(Header, parts[1])
    if header.version > VERSION:
        raise NewerVersion(
            f"wire version {header.version}, this jaxtop reads up to {VERSION}; upgrade jaxtop"
        )
    if len(parts[2]) > MAX_PAYLOAD:
        raise Unreadable(f"{len(parts[2])} bytes, more than a message may have")
    return Frame(at, header.agent, parts[0].decode("ascii", "replace"), header.sequence, parts[2])


def pack_ids(ids: tuple[int, ...]) -> Ids:
    """Device ids as runs of (first, count), in their order: 8,192 devices are a handful of bytes."""
    if not ids:
        return ()
    breaks = [i for i, (a, b) in enumerate(pairwise(ids), start=1) if b != a + 1]
    bounds = [0, *breaks, len(ids)]
    return tuple((ids[start], end - start) for start, end in pairwise(bounds))


def unpack_ids(runs: Ids) -> tuple[int, ...]:
    """The device ids in these runs."""
    if sum(count for _, count in runs) > MAX_DEVICES:
        raise Unreadable("more devices than any mesh has")
    if any(count < 0 for _, count in runs):  # would make room, in the sum, for a run without end
        raise Unreadable("a run of less than no devices")
    return tuple(first + i for first, count in runs for i in range(count))
