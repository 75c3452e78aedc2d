"""The messages of agents and viewers, as frozen structs over plain MessagePack.

A message travels as three parts: its kind, a header, its payload. New fields go to the end of a struct and
have a default; older readers skip unknown fields, and missing fields take their default. Figures are integers
in their natural small unit, which the field's name contains; None means unknown, never 0.

What is where, in the order in which to read it:

- codec.py: encodes and decodes messages; `Message` lists all kinds
- bounds.py: what a message may contain; the error of bytes that break it
- checks.py: checks that types cannot express
- ids.py: device ids and places, packed as runs
- hosts.py: who a process is, and how it ended
- pulse.py: what one interval of a process and its machine was like
- links.py: addresses, states of connections, requests and answers
- arrays.py: live arrays: the census and its changes
- census.py: a census after a change of it
- programs.py: compiled programs and their collectives
- windows.py: a window of the profiler
- operations.py: the operations of a program in a window
- activity.py: what the main thread did, and garbage collections
- stacks.py: the threads of a process, and where they are
- scalars.py: how scalars of the script have developed
- ledger.py: what a process has spent its time on
- libraries.py: what NCCL and the runtime of TPUs report
- captures.py: a full profile, in parts
- probing.py: the messages and the result of `jaxtop probe`
"""

from jaxtop.wire.activity import (
    COMPILE,
    FEWEST_ACTIVITY_SAMPLES,
    LAUNCH,
    SCRIPT,
    WAIT,
    ActiveLine,
    Activity,
    InputQueue,
)
from jaxtop.wire.arrays import ArrayGroup, Arrays, ArraysChange, Mesh, Sharding
from jaxtop.wire.bounds import MAX_DEVICES, NewerVersion, Unreadable, tally
from jaxtop.wire.captures import CaptureRequest, CaptureState
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
from jaxtop.wire.hosts import (
    ENDINGS,
    INTERRUPTED,
    MAIN_ROLE,
    SCRIPT_ENDED,
    STUCK,
    STUCK_STATUS,
    Bye,
    Compile,
    Device,
    Event,
    Hello,
    Uncaught,
)
from jaxtop.wire.ids import Ids, pack_ids, pack_runs, unpack_ids, unpack_runs
from jaxtop.wire.ledger import MOST_POINTS, MOST_SAVES, SPENT_ON, Ledger, LedgerPoint, Save
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
from jaxtop.wire.links import (
    BEGIN_CAPTURE,
    END_CAPTURE,
    FETCH_CAPTURE,
    MAX_PATH,
    READING,
    TAKE_WINDOW,
    Costs,
    Link,
    LinkState,
    Peer,
    Reply,
    Request,
    Roster,
    Still,
)
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
    AgentCost,
    BusyThread,
    Compiling,
    DeviceSample,
    HostSample,
    IoTotals,
    Lull,
    Pulse,
    Rhythm,
    Stall,
    Step,
)
from jaxtop.wire.scalars import Curves, Rise, Scalar, ScalarCurve, Scalars, is_loss, is_norm
from jaxtop.wire.stacks import COMPILED, NativeFrame, NativeStack, Place, Stacks, Thread
from jaxtop.wire.windows import Launch, Round, Window
