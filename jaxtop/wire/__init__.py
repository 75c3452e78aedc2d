"""The messages of agents and viewers, as frozen structs over plain MessagePack.

A message travels as three parts: its kind, a header, its payload. New fields go to the end of a struct and
have a default; older readers skip unknown fields, and missing fields take their default. Figures are integers
in their natural small unit, which the field's name contains; None means unknown, never 0.
"""

from jaxtop.wire.activity import ACTIVITIES, COMPILE, LAUNCH, SCRIPT, WAIT, ActiveLine, Activity
from jaxtop.wire.arrays import ArrayGroup, Arrays, ArraysChange, Mesh, Sharding
from jaxtop.wire.bounds import MAX_DEVICES, NewerVersion, Unreadable, tally
from jaxtop.wire.captures import CaptureAsk, CaptureState
from jaxtop.wire.checks import check_census
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
    link_of,
    local_frame,
    pack,
    unpack,
)
from jaxtop.wire.hosts import INTERRUPTED, SCRIPT_ENDED, Bye, Compile, Device, Event, Hello, Uncaught
from jaxtop.wire.ids import Ids, pack_ids, pack_runs, unpack_ids, unpack_runs
from jaxtop.wire.libraries import (
    Nccl,
    NcclCommunicator,
    NcclCount,
    NcclRank,
    NcclTime,
    NcclTimes,
    TpuCore,
    TpuCores,
)
from jaxtop.wire.links import MAX_PATH, READING, Costs, Link, Peer, Reply, Request, Roster
from jaxtop.wire.operations import Operation, Operations
from jaxtop.wire.past import (
    Past,
    PastArrays,
    PastDropped,
    PastEvent,
    PastEvents,
    PastFinding,
    PastLaunched,
    PastLaunches,
    PastLoss,
    PastPace,
    PastSamples,
    PastStandstill,
    PastStarts,
    PastSteps,
    PastUnchecked,
)
from jaxtop.wire.programs import (
    Buffer,
    Collective,
    Compilation,
    CompiledLine,
    Inventory,
    Peak,
    Program,
    Programs,
    ReplicaGroups,
)
from jaxtop.wire.pulse import (
    SLOWED,
    BusyThread,
    Compiling,
    Cost,
    DeviceSample,
    HostSample,
    Lull,
    Moved,
    Pulse,
    Rhythm,
    Stall,
    Step,
)
from jaxtop.wire.stacks import COMPILED, Place, Stacks, Thread
from jaxtop.wire.windows import Launch, Timed, Window

__all__ = [
    "ACTIVITIES", "COMPILE", "COMPILED", "INTERRUPTED", "KINDS", "LAUNCH", "LOCAL_SEQUENCE",
    "MAX_DEVICES", "MAX_PATH", "MAX_PAYLOAD", "MAX_TELEMETRY", "OWN_KINDS", "READING", "SCRIPT",
    "SCRIPT_ENDED", "SLOWED", "VERSION", "WAIT", "ActiveLine", "Activity", "ArrayGroup", "Arrays",
    "ArraysChange", "Buffer", "BusyThread", "Bye", "CaptureAsk", "CaptureState", "Collective",
    "Compilation", "Compile", "CompiledLine", "Compiling", "Cost", "Costs", "Device", "DeviceSample",
    "Event", "Frame", "Header", "Hello", "HostSample", "Ids", "Inventory", "Launch", "Link", "Lull",
    "Mesh", "Message", "Moved", "Nccl", "NcclCommunicator", "NcclCount", "NcclRank", "NcclTime",
    "NcclTimes", "NewerVersion", "Operation", "Operations", "Past", "PastArrays", "PastDropped",
    "PastEvent", "PastEvents", "PastFinding", "PastLaunched", "PastLaunches", "PastLoss", "PastPace",
    "PastSamples", "PastStandstill", "PastStarts", "PastSteps", "PastUnchecked", "Peak", "Peer",
    "Place", "Program", "Programs", "Pulse", "ReplicaGroups", "Reply", "Request", "Rhythm", "Roster",
    "Sharding", "Stacks", "Stall", "Step", "Thread", "Timed", "TpuCore", "TpuCores", "Uncaught",
    "Unreadable", "Window", "check_census", "decode", "decode_as", "encode", "kind_of", "link_of",
    "local_frame", "pack", "pack_ids", "pack_runs", "tally", "unpack", "unpack_ids", "unpack_runs",
]  # fmt: skip
