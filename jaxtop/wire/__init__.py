"""The messages: what agents say and viewers ask, as frozen structs over plain MessagePack.

A message travels as three parts: its kind, a header, its payload. New fields go to the end of a struct and
have a default; unknown fields are skipped by older readers, missing ones take their default. Figures are
integers in their natural small unit, which the field's name carries; None means unknown, never 0.
"""

from jaxtop.wire.arrays import ArrayGroup, Arrays, ArraysChange, Mesh, Sharding
from jaxtop.wire.codec import (
    KINDS,
    LOCAL_SEQUENCE,
    MAX_PAYLOAD,
    MAX_TELEMETRY,
    OWN_KINDS,
    VERSION,
    Frame,
    Header,
    Message,
    decode,
    decode_as,
    encode,
    kind_of,
    pack,
    unpack,
)
from jaxtop.wire.errors import NewerVersion, Unreadable
from jaxtop.wire.hosts import (
    Bye,
    Compile,
    Compiling,
    Cost,
    Device,
    DeviceSample,
    Event,
    Hello,
    HostSample,
    Pulse,
    Stall,
    Step,
)
from jaxtop.wire.ids import MAX_DEVICES, Ids, Runs, pack_ids, pack_runs, unpack_ids, unpack_runs
from jaxtop.wire.links import Link, Peer, Reply, Request, Roster
from jaxtop.wire.past import Past, PastEvent, PastEvents, PastLaunches, PastSample, PastStandstill, PastSteps
from jaxtop.wire.programs import Collective, Inventory, Program, Programs, ReplicaGroups
from jaxtop.wire.stacks import COMPILED, Place, Stacks, Thread
from jaxtop.wire.windows import Launch, Timed, Window

__all__ = [
    "COMPILED",
    "KINDS",
    "LOCAL_SEQUENCE",
    "MAX_DEVICES",
    "MAX_PAYLOAD",
    "MAX_TELEMETRY",
    "OWN_KINDS",
    "VERSION",
    "ArrayGroup",
    "Arrays",
    "ArraysChange",
    "Bye",
    "Collective",
    "Compile",
    "Compiling",
    "Cost",
    "Device",
    "DeviceSample",
    "Event",
    "Frame",
    "Header",
    "Hello",
    "HostSample",
    "Ids",
    "Inventory",
    "Launch",
    "Link",
    "Mesh",
    "Message",
    "NewerVersion",
    "Past",
    "PastEvent",
    "PastEvents",
    "PastLaunches",
    "PastSample",
    "PastStandstill",
    "PastSteps",
    "Peer",
    "Place",
    "Program",
    "Programs",
    "Pulse",
    "ReplicaGroups",
    "Reply",
    "Request",
    "Roster",
    "Runs",
    "Sharding",
    "Stacks",
    "Stall",
    "Step",
    "Thread",
    "Timed",
    "Unreadable",
    "Window",
    "decode",
    "decode_as",
    "encode",
    "kind_of",
    "pack",
    "pack_ids",
    "pack_runs",
    "unpack",
    "unpack_ids",
    "unpack_runs",
]
