"""Reports of the libraries of the devices: NCCL, its plugins, and the runtime of TPUs."""

from __future__ import annotations

from msgspec import Struct

from jaxtop.wire.bounds import Count, TimeMs, WireInteger  # noqa: TC001 - msgspec reads the annotations


class NcclRank(Struct, frozen=True, array_like=True):
    """A rank of a communicator of NCCL: the process and the GPU behind it, as NCCL numbers them.

    `device` is the CUDA ordinal within the process.
    """

    rank: WireInteger
    host: str
    pid: WireInteger
    device: WireInteger | None = None


class NcclCount(Struct, frozen=True, array_like=True):
    """How many ranks have launched this many operations; `ranks` lists them where they are a minority."""

    launched: Count
    count: WireInteger
    ranks: tuple[NcclRank, ...] = ()


class NcclCommunicator(Struct, frozen=True, array_like=True):
    """A communicator whose ranks differ. `counts` are those of one kind of operation, the largest first.

    `operation` is empty where the version of NCCL counts all kinds together. The processes of `unresponsive`
    ranks do not answer NCCL.
    """

    id: str
    size: WireInteger
    operation: str = ""
    counts: tuple[NcclCount, ...] = ()
    unresponsive: tuple[NcclRank, ...] = ()


class Nccl(Struct, frozen=True, omit_defaults=True, tag="nccl"):
    """What NCCL's RAS service says about the communicators of the run, asked during a stall.

    Only communicators whose ranks differ are listed, of `communicators` in all. For `same_ms`, consecutive
    answers have had the same counts; 0 is the first answer.
    """

    at_ms: TimeMs
    version: str = ""
    communicators: WireInteger = 0
    same_ms: WireInteger = 0
    differing: tuple[NcclCommunicator, ...] = ()


class NcclTime(Struct, frozen=True, array_like=True):
    """How long collectives of a kind took on the GPU of this process.

    `bytes` is what the members of the group contribute or get together, as in `Collective`.
    """

    kind: str
    ranks: WireInteger
    bytes: WireInteger
    count: WireInteger
    p50_us: WireInteger
    p99_us: WireInteger


class NcclTimes(Struct, frozen=True, omit_defaults=True, tag="nccl_times"):
    """What NCCL Inspector timed in the last `span_ms`, and how many bytes of its file were not read."""

    at_ms: TimeMs
    span_ms: WireInteger = 0
    skipped: WireInteger = 0
    times: tuple[NcclTime, ...] = ()


class TpuCore(Struct, frozen=True, array_like=True):
    """A core of a TPU as its runtime sees it: the program there, where it stands, and what is queued.

    `device` is JAX's id, None where it is unknown. `pc` is the program counter, 0 while the core runs
    nothing. `location` is the place in the HLO; `program` is the fingerprint of the program.
    """

    core: WireInteger
    device: WireInteger | None = None
    is_tensor_core: bool = True
    pc: WireInteger = 0
    location: str = ""
    program: str = ""
    run_id: WireInteger = 0
    launch_id: WireInteger = 0
    queued: WireInteger = 0
    error: str = ""


class TpuCores(Struct, frozen=True, omit_defaults=True, tag="tpu_cores"):
    """The cores of the TPUs of a process, asked during a stall.

    For `same_ms`, consecutive answers have shown the same programs at the same places; 0 is the first answer.
    """

    at_ms: TimeMs
    same_ms: WireInteger = 0
    cores: tuple[TpuCore, ...] = ()
