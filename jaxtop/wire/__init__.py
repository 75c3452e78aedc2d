"""The messages of agents and viewers, as frozen structs over plain MessagePack.

A message travels as three parts: its kind, a header, its payload. New fields go to the end of a struct and
have a default; older readers skip unknown fields, and missing fields take their default. Figures are integers
in their natural small unit, which the field's name contains; None means unknown, never 0.
"""

from jaxtop.wire.activity import COMPILE, LAUNCH, SCRIPT, WAIT, ActiveLine, Activity
from jaxtop.wire.arrays import ArrayGroup, Arrays, ArraysChange, Mesh, Sharding
from jaxtop.wire.bounds import MAX_DEVICES, NewerVersion, Unreadable, tally
from jaxtop.wire.captures import CaptureAsk, CaptureState
from jaxtop.wire.census import changed_census
from jaxtop.wire.checks import check
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
    decode_with,
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
