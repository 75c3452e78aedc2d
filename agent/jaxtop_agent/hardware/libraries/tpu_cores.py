"""The state of TPU cores: the program on each, where it stands, and what is queued behind it.

Names and layout are those of Google's tpu-info (tpu_info/proto/tpu_telemetry.proto). To find the place in the
HLO is expensive for the runtime, so this is asked rarely, and only of a process without progress.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from jaxtop.base import protobuf
from jaxtop.base.names import shorten
from jaxtop.wire import TpuCore
from jaxtop_agent.hardware.reader import Off
from jaxtop_agent.hardware.tpu import SERVICE, ports, shares, transport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.base.protobuf import ProtobufMessage
    from jaxtop.wire import Device

MOST_CORES = 64
LONGEST_PLACE, LONGEST_PROGRAM, LONGEST_ERROR = 160, 32, 160
# `TpuCoreTypeProto` and `TpuSequencerTypeProto`: the tensor core, and the sequencer that runs its programs.
TENSOR_CORE = 1
# With one of these a process uses only some chips of the machine, and its service may be another's.
_PARTS = ("TPU_VISIBLE_CHIPS", "TPU_VISIBLE_DEVICES", "TPU_PROCESS_BOUNDS", "TPU_CHIPS_PER_PROCESS_BOUNDS")


def read(devices: Sequence[Device]) -> tuple[TpuCore, ...]:
    """Return the cores of this process's devices; raise `Off` where the runtime reports none."""
    grpc = transport()
    found: list[_Core] = []
    failures = []
    listed = ports()
    for port, seconds in shares(listed):
        try:
            (answer,) = grpc.call(port, SERVICE + "GetTpuRuntimeStatus", [protobuf.true_field(1)], seconds)
            if answer.message is not None:
                found += map(_core, protobuf.read(answer.message).messages(2))
            elif answer.status == grpc.UNIMPLEMENTED:
                failures.append(f"port {port}: this version does not report the state of its cores")
            else:
                failures.append(f"port {port}: {answer.text or f'status {answer.status}'}")
        except (grpc.GrpcFailed, protobuf.Malformed) as error:
            failures.append(f"port {port}: {error}")
    if len(failures) == len(listed):
        raise Off(f"the TPU runtime does not say where its cores are ({'; '.join(failures)})")
    own = _own(sorted(found, key=lambda each: each.state.core), devices)
    if not own:
        raise Off("the TPU runtime reports no cores that can be matched to these devices")
    return own[:MOST_CORES]


class _Core(NamedTuple):
    state: TpuCore
    chip: int | None


def _core(entry: ProtobufMessage) -> _Core:
    state = entry.message(2) or protobuf.ProtobufMessage(())
    identity = state.message(1) or protobuf.ProtobufMessage(())
    kind = (identity.message(3) or protobuf.ProtobufMessage(())).number(1)
    sequencer = _sequencer(state.messages(2))
    read = TpuCore(
        core=entry.number(1) or 0,
        is_tensor_core=kind == TENSOR_CORE,
        pc=sequencer.number(3) or 0,
        location=shorten(sequencer.text(8) or "", LONGEST_PLACE),
        program=state.raw(4).hex()[:LONGEST_PROGRAM],
        run_id=sequencer.number(7) or 0,
        launch_id=state.number(5) or 0,
        queued=len(state.messages(6)),
        error=shorten(state.text(7) or "", LONGEST_ERROR),
    )
    return _Core(read, identity.number(2))


def _sequencer(sequencers: Sequence[ProtobufMessage]) -> ProtobufMessage:
    """Return the sequencer of the core that runs something; else the first."""
    running = [each for each in sequencers if each.number(3)]
    return next(iter((*running, *sequencers)), protobuf.ProtobufMessage(()))


def _own(cores: Sequence[_Core], devices: Sequence[Device]) -> tuple[TpuCore, ...]:
    """Return the cores of these devices, with the devices where they can be matched."""
    ids = sorted(device.id for device in devices)
    tensor = [each for each in cores if each.state.is_tensor_core]
    numbers = [each.state.core for each in tensor]
    if any(os.environ.get(name) for name in _PARTS):
        # Devices of a part of the machine have the numbers of their cores, unless a chip has two cores.
        has_pairs = len({each.chip for each in tensor}) < len(tensor)
        if has_pairs or not set(ids) <= set(numbers):
            return ()
        return tuple(replace(each.state, device=each.state.core) for each in tensor if each.state.core in ids)
    per_device = len(tensor) // len(ids) if ids and len(tensor) % len(ids) == 0 else 0
    place = {core: ids[i // per_device] for i, core in enumerate(numbers)} if per_device in {1, 2} else {}
    return tuple(replace(each.state, device=place.get(each.state.core)) for each in cores)
