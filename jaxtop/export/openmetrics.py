"""The cluster in the OpenMetrics text format, version 1.0.0, which Prometheus reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jaxtop.export.json import to_document
from jaxtop.export.metrics import FACTS, OF_DEVICES, OF_HOSTS, OF_STEPS, Named, by_name
from jaxtop.model import State
from jaxtop.names import legible
from jaxtop.wire import SLOWED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtop.model import Cluster

Labels = dict[str, object]


@dataclass
class _Family:
    """A metric family: the format requires all its samples to be contiguous."""

    name: str
    kind: str
    help: str
    unit: str = ""
    samples: list[tuple[Labels, float]] = field(default_factory=list)

    def add(self, labels: Labels, value: float | None) -> None:
        """Add a sample; an unknown figure has no sample."""
        if value is not None:
            self.samples.append((labels, value))

    def text(self) -> str:
        lines = [f"# TYPE {self.name} {self.kind}"]
        if self.unit:
            lines.append(f"# UNIT {self.name} {self.unit}")
        lines.append(f"# HELP {self.name} {self.help}")
        suffix = {"counter": "_total", "info": "_info"}.get(self.kind, "")
        lines += [f"{self.name}{suffix}{_labels(labels)} {value}" for labels, value in self.samples]
        return "\n".join(lines) + "\n"


def to_openmetrics(cluster: Cluster, now: float) -> str:
    """Return the exposition, with its end mark."""
    families = [family for family in _families(to_document(cluster, now)) if family.samples]
    return "".join(family.text() for family in families) + "# EOF\n"


def _families(document: dict[str, Any]) -> list[_Family]:
    state = _Family("jaxtop_host_state", "stateset", "What the host is doing.")
    launches = _Family("jaxtop_launches", "counter", "Launches of a compiled function, at least.")
    steps = _Family("jaxtop_steps", "counter", "Steps that the script reported, or that were found.")
    metric = _Family("jaxtop_step_metric", "gauge", "What the script said of its latest step.")
    agent_cpu = _Family("jaxtop_agent_cpu_ratio", "gauge", "CPU of the agent itself, in cores.", "ratio")
    used = _Family("jaxtop_device_memory_used_bytes", "gauge", "Bytes in use; see the source label.", "bytes")
    peak = _Family("jaxtop_device_memory_peak_bytes", "gauge", "Most bytes ever in use.", "bytes")
    limit = _Family("jaxtop_device_memory_limit_bytes", "gauge", "Bytes the allocator may use.", "bytes")
    part = _Family("jaxtop_device_memory_part_bytes", "gauge", "Memory by what takes it.", "bytes")
    wait = _Family("jaxtop_device_wait_seconds", "gauge", "Wait in the collectives of a launch.", "seconds")
    slowed = _Family("jaxtop_device_slowed", "gauge", "Whether it runs slower than it could, and why.")
    threads = _Family("jaxtop_thread_cpu_ratio", "gauge", "CPU of the busiest threads, in cores.", "ratio")
    cores = _Family("jaxtop_machine_cores", "gauge", "Cores that the process may use.")
    total = _Family("jaxtop_machine_memory_total_bytes", "gauge", "Memory of the container.", "bytes")
    machines = {each.figure.name: _figure(each) for each in OF_HOSTS}
    figures = {each.figure.name: _figure(each) for each in OF_DEVICES}
    figures |= {
        each.name: _Family(f"jaxtop_{each.metric}", each.kind, each.help, each.unit) for each in FACTS
    }
    for host in document["hosts"]:
        of_host = _labels_of(host)
        for each in State:
            state.add({**of_host, "jaxtop_host_state": each}, int(host["state"] == each))
        if State(host["state"]).is_over:  # its last figures would look current
            continue
        for name, family in machines.items():
            family.add(of_host, host["machine"][name])
        cores.add(of_host, host["machine"]["cores"])
        total.add(of_host, host["machine"]["memory_total_bytes"])
        taken = ((each["name"], each["cpu_percent"]) for each in host["busy_threads"] or ())
        for name, percent in by_name(taken).items():
            threads.add({**of_host, "thread": name}, percent / 100)
        agent_cpu.add(of_host, _over(host["agent"]["cpu_percent"], 100))
        for function, count in host["launches"].items():
            launches.add({**of_host, "function": function}, count)
        if host["step"]:
            steps.add(of_host, host["step"]["count"])
            for name, value in host["step"]["metrics"].items():
                metric.add({**of_host, "metric": name}, value)
        for device in host["devices"]:
            of_device = {**of_host, "device": device["id"], "kind": device["kind"]}
            memory = device["memory"]
            of_memory = {**of_device, "source": memory["source"]}
            used.add(of_memory, memory["used_bytes"])
            peak.add(of_memory, memory["peak_bytes"])
            limit.add(of_memory, memory["limit_bytes"])
            for name, size in memory["parts"].items():
                part.add({**of_memory, "part": name}, size)
            for name, family in figures.items():
                family.add(of_device, device[name])
            for why in SLOWED if device["slowed"] is not None else ():
                slowed.add({**of_device, "reason": why}, int(why in device["slowed"]))
            wait.add(of_device, _over(device["wait_us"], 10**6))
    of_hosts = [
        state,
        *machines.values(),
        cores,
        total,
        threads,
        launches,
        steps,
        metric,
        agent_cpu,
    ]
    of_devices = [used, peak, limit, part, *figures.values(), slowed, wait]
    return [*of_hosts, *_of_steps(document), *of_devices, *_of_programs(document), *_of_collectives(document)]


def _labels_of(host: dict[str, Any]) -> Labels:
    return {"run": host["run"], "process_index": host["process_index"], "hostname": host["hostname"]}


def _of_steps(document: dict[str, Any]) -> Iterable[_Family]:
    for each in OF_STEPS:
        family = _Family(f"jaxtop_{each.metric}", "gauge", each.help, each.unit)
        for host in document["hosts"]:
            if host["step"] and host["step"]["past_s"] is None:
                family.add(_labels_of(host), _over(host["step"][each.name], each.json_unit))
        yield family


def _figure(each: Named) -> _Family:
    return _Family(f"jaxtop_{each.metric}", "gauge", each.help, each.unit)


def _of_programs(document: dict[str, Any]) -> list[_Family]:
    compiles = _Family("jaxtop_compiles", "counter", "Compilations of a function.")
    operations = "Operations of a launch on a device, at least."
    flops = _Family("jaxtop_program_flops", "gauge", operations, "flops")
    needs = _Family("jaxtop_program_memory_bytes", "gauge", "What a program needs of a device.", "bytes")
    differs = _Family("jaxtop_program_differs", "gauge", "Processes with another program of this name.")
    within = _Family(
        "jaxtop_program_collective_ratio", "gauge", "Share of a launch within collectives.", "ratio"
    )
    exposed = _Family(
        "jaxtop_program_exposed_ratio", "gauge", "Share of a launch in collectives alone.", "ratio"
    )
    counted: dict[tuple[str, str], int] = {}
    for program in document["programs"]:  # variants of a name share its count
        name = program["run"], program["name"]
        counted[name] = max(counted.get(name, 0), program["compiles"] or 0)
    for (run, function), count in counted.items():
        compiles.add({"run": run, "program": function}, count or None)
    for program in document["programs"]:
        if program["fingerprint"] is None:  # nothing distinguishes it from others of its name
            continue
        labels = {"run": program["run"], "program": program["name"], "fingerprint": program["fingerprint"]}
        flops.add(labels, program["flops"])
        for kind in ("argument", "output", "alias", "temp", "code"):
            needs.add({**labels, "kind": kind}, program[f"{kind}_bytes"])
        differs.add(labels, len(program["differs"]))
        within.add(labels, program["collective_share"])
        exposed.add(labels, program["exposed_share"])
    return [compiles, flops, needs, differs, within, exposed]


def _of_collectives(document: dict[str, Any]) -> list[_Family]:
    size = _Family("jaxtop_collective_bytes", "gauge", "Bytes, as nccl-tests count them.", "bytes")
    rate = _Family("jaxtop_collective_rate", "gauge", "How often a second it runs.")
    samples = _Family("jaxtop_collective_samples", "gauge", "Instances that were measured.")
    # No count and no sum: only some launches are measured.
    lasts = _Family("jaxtop_collective_seconds", "summary", "Duration for who came first.", "seconds")
    transfer = _Family("jaxtop_collective_transfer_seconds", "gauge", "Duration without waiting.", "seconds")
    wait = _Family("jaxtop_collective_wait_seconds", "gauge", "Longest wait in a group, median.", "seconds")
    bus = _Family(
        "jaxtop_collective_bus_bytes_per_second", "gauge", "Bus bandwidth, estimated.", "bytes_per_second"
    )
    late = _Family("jaxtop_collective_straggler_ratio", "gauge", "Share in which it came last.", "ratio")
    for each in document["collectives"]:
        labels: Labels = {name: each[name] for name in ("run", "program", "fingerprint", "op", "kind")}
        labels["axes"] = None if each["axes"] is None else ",".join(each["axes"])
        size.add(labels, each["bytes"])
        rate.add(labels, each["per_second"])
        samples.add(labels, each["samples"])
        for quantile, figure in (("0.5", "p50_us"), ("0.99", "p99_us")):
            lasts.add({**labels, "quantile": quantile}, _over(each[figure], 10**6))
        transfer.add(labels, _over(each["transfer_us"], 10**6))
        wait.add(labels, _over(each["wait_us"], 10**6))
        bus.add(labels, each["busbw_bytes_per_s"])
        if each["straggler"]:
            who = {
                "process_index": each["straggler"]["process_index"],
                "device": each["straggler"]["device_id"],
            }
            late.add({**labels, **who}, each["straggler"]["share"])
    return [size, rate, samples, lasts, transfer, wait, bus, late]


def _over(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit


def _labels(labels: Labels) -> str:
    given = [f'{name}="{escaped(str(value))}"' for name, value in labels.items() if value is not None]
    return "{" + ",".join(given) + "}" if given else ""


def escaped(value: str) -> str:
    """Return a label value in the format's syntax, with control characters escaped."""
    return "\\n".join(legible(line).replace("\\", "\\\\").replace('"', '\\"') for line in value.split("\n"))
