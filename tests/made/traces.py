"""Traces of accelerators with the structure of captured ones, and with waits that are known.

What captured profiles of a TPU v6e and of MI300X contain is in docs/development/accelerators.md. Those of
NVIDIA GPUs follow the sources of XLA.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from tests.made.programs import reducing
from tests.made.xspace import Event, plane, space

PROGRAM, FINGERPRINT, MODULE_NUMBER = "jit_step", 12190760917, 17
REDUCE = "all-reduce.1"
COMPUTE_US, TRANSFER_US, PERIOD_US = 4_000.0, 1_500.0, 40_000.0
# The numbers of the runtime's contexts, as the traces have them.
PJRT, TPU_SYSTEM, TPU_QUEUE = 5, 7, 12


class Launch(NamedTuple):
    """When each device reaches the collective of a launch, in microseconds, by device.

    `until` is when all leave it, if devices of other processes may come last. `groups` has the devices that
    meet, if not all do.
    """

    arrivals: dict[int, float]
    until: float | None = None
    groups: tuple[tuple[int, ...], ...] = ()

    @property
    def leaves(self) -> float:
        """When the last device leaves it."""
        return max(map(self.left, self.arrivals))

    def left(self, device: int) -> float:
        """When a device leaves it: as soon as the last of its group has arrived, and its transfer is over."""
        return self._latest(device) + TRANSFER_US if self.until is None else self.until

    def waits(self) -> dict[int, float]:
        return {device: self._latest(device) - each for device, each in self.arrivals.items()}

    def _latest(self, device: int) -> float:
        own = next((group for group in self.groups if device in group), tuple(self.arrivals))
        return max(self.arrivals[each] for each in own if each in self.arrivals)


@dataclass
class Made:
    """A process with its devices, and what its trace has.

    `alone` launches ran on the first device before all others, which shifts its run ids. `ahead` launches
    were made before the trace began. `lost` is the share of the host's events that are missing. The profiler
    may keep the program, which `runs_on` devices with these ids, if not on those of the trace alone.
    """

    launches: list[Launch]
    alone: int = 0
    ahead: int = 0
    has_host: bool = True
    lost: float = 0.0
    seed: int = 1
    has_programs: bool = True
    runs_on: tuple[int, ...] = ()
    ids: count[int] = field(default_factory=lambda: count(1000))

    @property
    def devices(self) -> list[int]:
        return sorted({device for launch in self.launches for device in launch.arrivals})

    def called(self, number: int) -> float:
        """Return when the host made a launch: before any device could begin."""
        return min(self.launches[number].arrivals.values()) - COMPUTE_US - 500.0

    def programs(self, *, barrier: bool = False) -> bytes:
        """The plane with the program: its collective over the groups of the first launch."""
        if not self.has_programs:
            return b""
        groups = self.launches[0].groups or (self.runs_on or self.devices,)
        return reducing(PROGRAM, REDUCE, groups, self.runs_on or self.devices, barrier=barrier)

    def host(self, threads: dict[str, list[Event]]) -> bytes:
        dice = random.Random(self.seed)
        kept = {
            name: [event for event in events if dice.random() >= self.lost]
            for name, events in threads.items()
        }
        return plane("/host:CPU", kept if self.has_host else {})


def launches(
    devices: int,
    number: int,
    *,
    late: int | None = None,
    late_us: float = 6_000.0,
    noise_us: float = 300.0,
    seed: int = 1,
    groups: tuple[tuple[int, ...], ...] = (),
) -> list[Launch]:
    """Return launches of which one device is late in each, or none; each begins after the one before it."""
    dice, begin, found = random.Random(seed), 20_000.0, []
    for _ in range(number):
        arrivals = {
            device: begin + COMPUTE_US + dice.random() * noise_us + (late_us if device == late else 0.0)
            for device in range(devices)
        }
        found.append(Launch(arrivals, groups=groups))
        begin = max(begin + PERIOD_US, found[-1].leaves + COMPUTE_US)
    return found


def tpu(made: Made) -> bytes:
    """A trace of TPU cores: run ids count per core, and the wait is in a barrier before the collective."""
    main: list[Event] = []
    workers: dict[str, list[Event]] = {f"py_xla_execute/{device}": [] for device in made.devices}
    queues: dict[str, list[Event]] = {f"tfrt-non-blocking-queue/{device}": [] for device in made.devices}
    lines: dict[int, dict[str, list[Event]]] = {
        device: {"XLA Modules": [], "XLA Ops": [], "XLA TraceMe": []} for device in made.devices
    }
    first = made.devices[0]
    for number in range(made.alone):
        at, context = 10.0 + 100 * number, next(made.ids)
        main.append(Event("TfrtTpuLoadedExecutable::Execute", at, 30, {}))
        main.append(Event("DoEnqueueProgram", at + 5, 10, {"_pt": TPU_QUEUE, "_p": context}))
        said = {"run_id": number + 1, "_ct": TPU_QUEUE, "_c": context}
        lines[first]["XLA Modules"].append(Event("jit_convert(77)", at + 20, 40, said))
    for number, launch in enumerate(made.launches):
        is_seen = number >= made.ahead
        at, launched = made.called(number), next(made.ids)
        if is_seen:
            main.append(Event("TfrtTpuLoadedExecutable::Execute", at, 200, {"_pt": PJRT, "_p": launched}))
        for device, arrival in launch.arrivals.items():
            handed, queued = next(made.ids), next(made.ids)
            if is_seen:
                scheduled = {"_ct": PJRT, "_c": launched}
                workers[f"py_xla_execute/{device}"] += [
                    Event("Scheduled TfrtTpuLoadedExecutable::Execute", at + 20, 150, scheduled),
                    Event("tpu::System::Execute", at + 40, 50, {"_pt": TPU_SYSTEM, "_p": handed}),
                ]
                issued = {"_ct": TPU_SYSTEM, "_c": handed}
                enqueued = {"_pt": TPU_QUEUE, "_p": queued, "device_ordinal": device}
                queues[f"tfrt-non-blocking-queue/{device}"] += [
                    Event("tpu::System::Execute=>IssueSequencedEvent", at + 100, 60, issued),
                    Event("DoEnqueueProgram", at + 110, 40, enqueued),
                ]
            own, run = lines[device], number + 1 + (made.alone if device == first else 0)
            last = launch.left(device) - TRANSFER_US
            said = {"run_id": run, "_ct": TPU_QUEUE, "_c": queued}
            begin, leaves = arrival - COMPUTE_US, launch.left(device)
            own["XLA Modules"].append(Event(f"{PROGRAM}({FINGERPRINT})", begin, leaves - begin, said))
            own["XLA Ops"] += [
                Event("%fusion.3 = f32[8]{0} fusion(f32[8]{0} %p)", begin, COMPUTE_US, {}),
                Event(
                    f"%{REDUCE} = f32[8]{{0}} all-reduce(...)",
                    last,
                    TRANSFER_US,
                    {"all_reduce_unique_id": run << 16},
                ),
            ]
            own["XLA TraceMe"].append(Event("barrier-cores", arrival, last - arrival, {}))
    cores = [plane(f"/device:TPU:{device}", each) for device, each in lines.items()]
    return space(*cores, made.host({"main": main, **workers, **queues}), made.programs(barrier=True))


def rocm(made: Made) -> bytes:
    """A trace of AMD GPUs: the driver's calls are on threads of their own, which PJRT's events are not on."""
    return _gpus(made, ("hipModuleLaunchKernel", "Host Threads/{device}"), "ncclDevKernel_Generic_1(4)")


def nvidia(made: Made) -> bytes:
    """A trace of NVIDIA GPUs: the calls are on the threads that launch, and a graph has one call."""
    return _gpus(
        made, ("cuGraphLaunch (CudaGraph:3)", "py_xla_execute/{device}"), "ncclDevKernel_AllReduce_Sum_f32"
    )


def _gpus(made: Made, call: tuple[str, str], kernel: str) -> bytes:
    name, of_call = call
    threads: dict[str, list[Event]] = {"python": []}
    lines: dict[int, dict[str, list[Event]]] = {
        device: {"Stream #16(Kernel)": [], "Stream #20(Kernel)": []} for device in made.devices
    }
    program: dict[str, int | str] = {"hlo_module": PROGRAM, "program_id": MODULE_NUMBER}
    for number, launch in enumerate(made.launches):
        at, launched = made.called(number), next(made.ids)
        is_seen = number >= made.ahead
        if is_seen:
            executed = {"_pt": PJRT, "_p": launched}
            threads["python"].append(Event("PjRtStreamExecutorLoadedExecutable::Execute", at, 300, executed))
        for device, arrival in launch.arrivals.items():
            begin, leaves = arrival - COMPUTE_US, launch.left(device)
            computes = next(made.ids)
            reduces = computes if "Graph" in name else next(made.ids)
            if is_seen:
                enqueued = {"_ct": PJRT, "_c": launched}
                threads.setdefault(f"py_xla_execute/{device}", []).append(
                    Event("PjRtStreamExecutorLoadedExecutable::EnqueueExecution", at + 20, 250, enqueued)
                )
                threads.setdefault(of_call.format(device=device), []).extend(
                    Event(name, at + 50 + 20 * place, 10, {"correlation_id": correlation, **program})
                    for place, correlation in enumerate((computes, reduces))
                )
            own = lines[device]
            own["Stream #16(Kernel)"] += [
                Event("gemm_1", begin, 2_000, {"hlo_op": "gemm.1", "correlation_id": computes, **program}),
                Event(
                    "gemm_1_reduce",
                    begin + 2_100,
                    COMPUTE_US - 2_100,
                    {"hlo_op": "gemm.1", "correlation_id": computes, **program},
                ),
            ]
            own["Stream #20(Kernel)"].append(
                Event(
                    kernel,
                    arrival,
                    leaves - arrival,
                    {"hlo_op": REDUCE, "correlation_id": reduces, **program},
                )
            )
    planes = [plane(f"/device:GPU:{device}", each) for device, each in lines.items()]
    return space(*planes, made.host(threads), made.programs())


PLATFORMS = {"tpu": ("tpu", tpu), "rocm": ("rocm", rocm), "nvidia": ("cuda", nvidia)}
