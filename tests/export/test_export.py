"""The cluster as text: what the contract names is there, what nobody knows is not invented, and it parses."""

from __future__ import annotations

import csv
import io
import json

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from jaxtop import __version__, wire
from jaxtop.base.names import legible
from jaxtop.export import to_csv, to_document, to_json, to_openmetrics
from jaxtop.export.metrics import METRICS
from jaxtop.model import DEVICE_FIGURES, HOST_FIGURES, Cluster, LoggedEvent
from jaxtop.model.keyframe import PastEvents
from tests import builders
from tests.made.clusters import HOSTILE, NOW, cluster, everything
from tests.made.runs import run_of
from tests.made.windows import Made
from tests.pages import DOCS
from tests.staged import collectives as staged_collectives
from tests.stories import cluster_of, hello, link, pulse, running, tell

# The contract, as docs/scripting.md prints it: names to the types that a known value has.
TEXT, COUNT, FIGURE = str, int, (int, float)
DEVICE = {
    "id": COUNT,
    "local_id": COUNT,
    "platform": TEXT,
    "kind": TEXT,
    "coords": list,
    "memory": {
        "used_bytes": COUNT,
        "peak_bytes": COUNT,
        "limit_bytes": COUNT,
        "source": TEXT,
        "limit_source": TEXT,
    },
    "utilization": FIGURE,
    "power_w": FIGURE,
    "temperature_c": FIGURE,
}
STEP = dict.fromkeys(
    ("count", "per_second", "p50_ms", "p99_ms", "flops_per_second", "utilization_of_peak"), FIGURE
)
HOST = {
    "run": TEXT,
    "process_index": COUNT,
    "incarnation": COUNT,
    "hostname": TEXT,
    "pid": COUNT,
    "state": TEXT,
    "age_s": FIGURE,
    "jax": TEXT,
    "platform": TEXT,
    "cpu_percent": FIGURE,
    "rss_bytes": COUNT,
    "launches": dict,
    "step": {"function": TEXT, **STEP},
    "sources": dict,
    "agent": {"cpu_percent": FIGURE, "dropped": COUNT},
    "devices": [DEVICE],
}
ARRAY = {
    "name": TEXT,
    "function": TEXT,
    "shape": list,
    "dtype": TEXT,
    "sharding": TEXT,
    "mesh": COUNT,
    "device_ids": list,
    "memory_kind": TEXT,
    "count": COUNT,
    "bytes_global": COUNT,
    "bytes_per_device": COUNT,
    "replication": COUNT,
}
COLLECTIVE = {
    "program": TEXT,
    "op": TEXT,
    "kind": TEXT,
    "axes": list,
    "group_size": COUNT,
    "bytes": COUNT,
    "samples": COUNT,
    "p50_us": COUNT,
    "p99_us": COUNT,
    "transfer_us": COUNT,
    "wait_us": COUNT,
    "busbw_gbps": FIGURE,
    "straggler": {"process_index": COUNT, "device_id": COUNT, "share": FIGURE},
}
CONTRACT = {
    "schema": COUNT,
    "jaxtop": TEXT,
    "at": TEXT,
    "runs": [{"id": TEXT, "name": TEXT, "process_count": COUNT}],
    "hosts": [HOST],
    "meshes": [{"axes": [{"name": TEXT, "size": COUNT}], "device_ids": list}],
    "arrays": [ARRAY],
    "programs": list,
    "collectives": list,
    "windows": {"unassigned": FIGURE, "unmatched_launches": COUNT},
    "events": [{"at": TEXT, "severity": TEXT, "kind": TEXT, "process_index": COUNT, "text": TEXT}],
}


def strictly(text: str):
    """JSON as the standard has it: no NaN, no Infinity."""
    return json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


def check(value: object, expected: object, where: str) -> None:
    """All names are there; each value is of its type, or null."""
    if isinstance(expected, dict):
        assert isinstance(value, dict), where
        assert expected.keys() <= value.keys(), f"{where} lacks {expected.keys() - value.keys()}"
        for name, inner in expected.items():
            if value[name] is not None:
                check(value[name], inner, f"{where}.{name}")
    elif isinstance(expected, list):
        assert isinstance(value, list) and value, where
        for i, each in enumerate(value):
            check(each, expected[0], f"{where}[{i}]")
    else:
        assert isinstance(value, expected) and not isinstance(value, bool), where


def leaves(value: object) -> list[object]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return [value] if inner is None else [leaf for each in inner for leaf in leaves(each)]


# JSON


def test_the_document_has_every_field_of_the_contract():
    document = strictly(to_json(cluster(), NOW))
    document["hosts"] = [document["hosts"][0]]
    check(document, CONTRACT, "$")


def test_the_document_says_what_a_step_takes_and_what_that_is_of_the_peak():
    """By hand: one H100 of 989 TFLOPS, 10^12 operations a step, 3.9 steps a second, 9 mW."""
    [host] = strictly(to_json(everything(), NOW))["hosts"]
    assert host["step"] == {
        "function": "update",
        "functions": ["grads", "update"],
        "is_told": False,
        "index": 12,
        "count": 13,
        "metrics": {"tokens": 1000.0},
        "per_second": 3.9,
        "mean_ms": 250.0,
        "p50_ms": 240.0,
        "p90_ms": 300.0,
        "p99_ms": 500.0,
        "jitter": 0.25,
        "idle": pytest.approx(0.25),
        "launches_per_step": 5,
        "flops": 10**12,
        "flops_per_second": pytest.approx(3.9e12),
        "flops_at_least": False,
        "utilization_of_peak": pytest.approx(3.9 / 989),
        "peak_source": "NVIDIA's data sheet, dense bfloat16",
        "tokens_per_second": pytest.approx(3900),
        "joules_per_step": pytest.approx(0.009 / 3.9),
        "joules_per_token": pytest.approx(0.009 / 3900),
        "past_s": None,
        "parts": None,
    }


# What stays true of a process that is no more.
OF_THE_PAST = {
    "run", "process_index", "incarnation", "hostname", "pid", "state", "age_s", "jax", "platform", "launches",
    "late", "sources", "dropped", "limit_bytes", "limit_source", "source", "id", "local_id", "kind", "coords",
    "uuid", "function", "functions", "is_told", "index", "count", "metrics", "ledger",
}  # fmt: skip


def told_of_now(value: object) -> list[str]:
    """The names in a document that are not of the past and have a value."""
    if isinstance(value, list):
        return [name for each in value for name in told_of_now(each)]
    if not isinstance(value, dict):
        return []
    found = []
    for name, each in value.items():
        if isinstance(each, dict | list) and name not in OF_THE_PAST:
            found += told_of_now(each)
        elif each is not None and name not in OF_THE_PAST:
            found.append(name)
    return found


@pytest.mark.parametrize(("end", "state"), [(wire.Bye(19_500, "ended"), "ended"), (link("closed"), "died")])
def test_of_a_process_that_is_no_more_counts_and_names_stay_and_nothing_is_as_if_of_now(end, state):
    model = everything()
    [alive] = strictly(to_json(model, NOW))["hosts"]
    tell(model, (19.4, "r1-1", link("up")), (19.4, "r1-1", hello(1)), (19.5, "r1-0", end))
    host, _ = strictly(to_json(model, NOW))["hosts"]
    assert host["state"] == state
    assert told_of_now(host) == []
    for name in ("launches", "sources", "hostname"):
        assert host[name] == alive[name]
    for name in ("index", "count", "metrics", "functions"):
        assert host["step"][name] == alive["step"][name]
    row, *_ = csv.DictReader(io.StringIO(to_csv(model, NOW)))
    assert (row["used_bytes"], row["power_w"], row["host_cpu_percent"], row["uuid"]) == ("", "", "", "GPU-1")


def test_of_a_run_that_is_over_arrays_and_the_memory_in_use_stay():
    """The last moment of a black box says what was there."""
    model = everything()
    before = strictly(to_json(model, NOW))
    tell(model, (19.5, "r1-0", wire.Bye(19_500, "ended")))
    after = strictly(to_json(model, NOW))
    (was,), (device,) = before["hosts"][0]["devices"], after["hosts"][0]["devices"]
    assert after["arrays"] == before["arrays"]
    for name in ("used_bytes", "peak_bytes", "limit_bytes", "source"):
        assert device["memory"][name] == was["memory"][name]
    for part in ("parameters", "optimizer", "batch", "other_named", "unnamed"):
        assert device["memory"]["parts"][part] == was["memory"]["parts"][part]
    assert device["used_bytes"] == was["used_bytes"]
    assert device["power_w"] is device["utilization"] is None


def test_the_document_says_what_the_hosts_said():
    document = strictly(to_json(cluster(), NOW))
    assert (document["schema"], document["jaxtop"], document["at"]) == (
        1,
        __version__,
        "1970-01-01T00:00:20.000Z",
    )
    (run,) = document["runs"]
    assert run == {
        "id": "r1",
        "name": "train",
        "process_count": 2,
        "family": None,
        "role": None,
        "goodput": None,
        "step": None,
    }
    host = document["hosts"][0]
    assert (host["state"], host["age_s"], host["incarnation"]) == ("live", 1.0, 1)
    assert (host["sampled_age_s"], host["counted_age_s"]) == (0.4, 10.0)
    assert (host["cpu_percent"], host["rss_bytes"], host["launches"]) == (150.3, 3 << 30, {"step": 123})
    assert (host["step"]["count"], host["step"]["index"]) == (13, 7)
    assert (host["agent"]["cpu_percent"], host["agent"]["dropped"]) == (0.4, 3)
    first, second = host["devices"]
    promised = {
        "used_bytes": 1 << 33,
        "peak_bytes": 1 << 34,
        "limit_bytes": 80 << 30,
        "source": "allocator",
    }
    assert first["memory"].items() >= promised.items()
    assert first["memory"]["parts"]["free"] == (80 << 30) - (1 << 33)
    assert (first["utilization"], first["power_w"], first["temperature_c"]) == (0.875, 350.5, 61)
    assert (second["id"], second["local_id"], second["memory"]["used_bytes"]) == (2048, 1, None)
    assert (second["utilization"], second["power_w"]) == (0.0, None)  # idle is known, power is not
    assert [axis["name"] for axis in document["meshes"][0]["axes"]] == ["data", "model"]
    weights, scalar = document["arrays"]
    assert (weights["mesh"], weights["device_ids"]) == (0, document["meshes"][0]["device_ids"])
    assert (weights["sharding"], weights["replication"]) == ("P('data', None)", 4)
    assert (scalar["mesh"], scalar["device_ids"], scalar["shape"]) == (None, [0], [])
    assert [(event["kind"], event["process_index"]) for event in document["events"]] == [("source", 0)]


def test_what_nobody_knows_is_null_and_never_zero():
    """Of a host that has not spoken there are its place and its state, and not one figure."""
    unknown = strictly(to_json(cluster(), NOW))["hosts"][1]
    check(unknown, {**HOST, "devices": list}, "$.hosts[1]")
    known = {
        name: unknown.pop(name)
        for name in ("run", "process_index", "incarnation", "hostname", "pid", "state")
    }
    assert known == {
        "run": "r1",
        "process_index": 1,
        "incarnation": 1,
        "hostname": "node1",
        "pid": 77,
        "state": "connecting",
    }
    assert set(leaves(unknown)) == {None}


def test_a_host_that_said_hello_but_sent_no_figures_has_none():
    only_hello = cluster_of(
        (10, "r1-0", link("up")), (10, "r1-0", hello(0, devices=(wire.Device(0, "cpu", "cpu"),)))
    )
    host = strictly(to_json(only_hello, NOW))["hosts"][0]
    assert host["jax"] == "0.10.2"
    figures = [host["agent"], host["machine"], host["devices"][0]["memory"], host["step"], host["rss_bytes"]]
    assert set(leaves(figures)) == {None}


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), float("-inf")])
def test_a_loss_that_is_no_number_is_null(odd):
    diverged = cluster()
    tell(diverged, (19.5, "r1-0", pulse(at_ms=19_500, step=wire.Step(8, 14, {"loss": odd}))))
    assert strictly(to_json(diverged, NOW))["hosts"][0]["step"]["metrics"] == {"loss": None}
    (value,) = metrics(to_openmetrics(diverged, NOW))["jaxtop_step_metric"].values()
    assert str(value) == str(odd)


def test_what_could_not_be_read_and_who_was_not_met_is_in_the_document():
    some = cluster_of(*running(0), (11, "", link("refused", "this key is not admitted")))
    some.feed(wire.Frame(12, "r1-0", "weather", 1, b""))
    document = strictly(to_json(some, NOW))
    assert document["unmet"] == [
        {"address": "10.0.0.1:7411", "state": "refused", "text": "this key is not admitted"}
    ]
    assert list(document["rejected"].values()) == [1]


def test_an_event_about_a_host_that_is_not_known_is_in_the_document():
    """As in a recording of which a part is damaged."""
    told = PastEvents((LoggedEvent(9.0, "info", "back", "r1-7", "is back"),))
    (event,) = strictly(to_json(cluster_of((10, "", told)), NOW))["events"]
    assert (event["process_index"], event["text"]) == (None, "is back")


def test_the_document_has_all_figures_of_the_machine_and_its_devices():
    (host,) = strictly(to_json(everything(), NOW))["hosts"]
    (device,) = host["devices"]
    assert device.keys() >= {each.name for each in DEVICE_FIGURES}
    assert host["machine"].keys() >= {each.name for each in HOST_FIGURES}
    numbers = [device[each.name] for each in DEVICE_FIGURES] + [
        host["machine"][each.name] for each in HOST_FIGURES
    ]
    assert all(isinstance(number, int | float) for number in numbers)
    assert (device["power_w"], device["power_limit_w"], device["energy_j"]) == (0.009, 700.0, 7.5)
    assert device["slowed"] == ["heat", "power brake"] and device["uuid"] == "GPU-1"
    assert (device["ecc_corrected"], device["ecc_uncorrected"]) == (28, 29)
    assert (host["machine"]["cores"], host["machine"]["is_container"]) == (1.009, True)
    assert host["busy_threads"][0] == {"name": "load", "cpu_percent": 90.0, "is_python": True}
    assert host["machine"]["cpu_percent"] == 100.3  # as it was called at first


def test_where_no_driver_and_no_kernel_tells_nothing_is_zero():
    (host,) = strictly(to_json(cluster(), NOW))["hosts"][:1]
    device = host["devices"][0]
    told = {"used_bytes", "utilization", "power_w", "temperature_c"}
    assert {device[each.name] for each in DEVICE_FIGURES if each.name not in told} == {None}
    assert (device["slowed"], device["energy_j"], device["uuid"]) == (None, None, None)
    assert {host["machine"][name] for name in ("cores", "is_container", "cpu_pressure", "held_back")} == {
        None
    }
    assert host["busy_threads"] is None


def test_hostile_names_survive_as_they_are():
    document = strictly(to_json(cluster(HOSTILE, HOSTILE, HOSTILE), NOW))
    host = document["hosts"][0]
    assert (host["hostname"], [*host["launches"]], [*host["step"]["metrics"]]) == (
        HOSTILE,
        [HOSTILE],
        [HOSTILE],
    )
    assert document["arrays"][0]["name"] == HOSTILE


# Collectives


def test_collectives_are_in_the_document_with_the_one_who_comes_last():
    measured, now = run_of(Made(hosts=3, devices=2, late=1), windows=5), 11.0  # while its rates are current
    document = strictly(to_json(measured, now))
    check(document["collectives"], [COLLECTIVE], "$.collectives")
    psum = document["collectives"][0]
    assert (psum["op"], psum["axes"], psum["crosses_hosts"]) == ("all-reduce.3", ["data"], True)
    assert (psum["group_size"], psum["groups"], psum["bytes"]) == (3, 2, 64 << 20)
    assert (psum["straggler"]["process_index"], psum["straggler"]["device_id"] // 2) == (1, 1)
    assert psum["enough"] and psum["straggler"]["share"] > 0.9
    assert [each["straggler"] for each in document["collectives"][1:]] == [None] * 5
    timed = document["collectives"][0]
    assert 0 < timed["busbw_bytes_per_s"] == pytest.approx(timed["busbw_gbps"] * 1e9)
    (program,) = document["programs"]
    assert (program["collectives"], program["measured_launches"]) == (6, 25)
    assert 0 < program["exposed_share"] < program["collective_share"] < 1
    assert [axis["axes"] for axis in document["axes"]] == [["data"], ["model"], ["data", "model"]]
    late, others = document["hosts"][1], [document["hosts"][0], document["hosts"][2]]
    assert late["late"]["last"] > max(host["late"]["last"] for host in others)
    waited = [device["wait_us"] for host in others for device in host["devices"]]
    assert min(waited) > 40_000
    assert max(device["wait_us"] for device in late["devices"]) < 5_000
    assert table(to_csv(measured, now))[0]["wait_us"] == str(waited[0])


def test_the_line_of_a_collective_and_why_it_was_added():
    seen = builders.folded(staged_collectives.of_one_line())
    document = strictly(to_json(seen, builders.NOW))
    added, *small = sorted(document["collectives"], key=lambda each: -each["bytes"])
    assert (added["source"], added["name_stack"]) == ("train.py:12", "jit(train_step)/layer/dot_general")
    assert (added["added"], added["operand"]) == ("resharding", "params['w']")
    assert (added["operand_has"], added["operand_wants"]) == (
        "cut along dimension 0 in 4",
        "whole along dimension 0",
    )
    assert [each["source"] for each in small] == ["train.py:40"] * 6
    assert {each["added"] for each in small} == {each["operand"] for each in small} == {None}


def test_compilations_are_in_the_document_with_their_causes():
    told = [
        wire.Compilation(10_000, "step", "train.py:7", 1500, "first", from_cache=False),
        wire.Compilation(12_000, "step", "train.py:9", 700, "shape", "x", "f32[8]", "f32[7]", 1, True),
    ]
    lines = [wire.CompiledLine("step", "train.py:9", 1, 700, 1, 1, 0), wire.CompiledLine("step", "", 2, 900)]
    seen = cluster_of(
        *running(0), (13, "r1-0", wire.Programs(13_000, compilations=tuple(told), lines=tuple(lines)))
    )
    document = strictly(to_json(seen, 20.0))
    first, again = document["compiles"]
    assert again == {
        "at": "1970-01-01T00:00:12.000Z", "run": "r1", "process_index": 0, "function": "step",
        "source": "train.py:9", "seconds": 0.7, "cause": "shape", "argument": "x", "before": "f32[8]",
        "after": "f32[7]", "others": 1, "from_cache": True,
    }  # fmt: skip
    assert (first["cause"], first["argument"], first["before"], first["from_cache"]) == (
        "first", None, None, False,
    )  # fmt: skip
    assert document["compile_lines"] == [
        {"run": "r1", "function": "step", "source": None, "seconds": 0.9, "count": 2, "again": 0,
         "cache_hits": 0, "cache_misses": 0, "processes": 1},
        {"run": "r1", "function": "step", "source": "train.py:9", "seconds": 0.7, "count": 1, "again": 1,
         "cache_hits": 1, "cache_misses": 0, "processes": 1},
    ]  # fmt: skip


def test_collectives_that_were_never_timed_are_null_and_not_zero():
    document = strictly(to_json(run_of(Made(hosts=2, devices=2), windows=0), NOW))
    for each in document["collectives"]:
        assert (each["samples"], each["enough"]) == (0, False)
        figures = ("p50_us", "p99_us", "transfer_us", "wait_us", "busbw_gbps", "straggler")
        assert {each[name] for name in figures} == {None}
    assert document["hosts"][0]["late"] is None


def test_collectives_are_read_by_prometheus():
    found = metrics(to_openmetrics(run_of(Made(hosts=3, devices=2, late=1), windows=5), NOW))
    (late,) = found["jaxtop_collective_straggler_ratio"].items()
    assert late[1] > 0.9
    labels = {"op": "all-reduce.3", "axes": "data", "process_index": "1"}
    assert dict(late[0]).items() >= labels.items()
    assert len(found["jaxtop_collective_seconds"]) == 12
    assert len(found["jaxtop_device_wait_seconds"]) == 6
    (share,) = found["jaxtop_program_collective_ratio"].values()
    assert 0 < share < 1


# CSV


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def test_csv_has_a_line_a_device_and_nothing_where_nothing_is_known():
    first, second, unmet = table(to_csv(cluster(), NOW))
    assert (first["hostname"], first["device_id"], first["used_bytes"]) == ("node0", "0", str(1 << 33))
    assert (first["memory_source"], first["power_w"], first["launches"]) == ("allocator", "350.5", "123")
    assert (second["device_id"], second["used_bytes"], second["utilization"]) == ("2048", "", "0.0")
    assert {name: value for name, value in unmet.items() if value} == {
        "run": "r1",
        "process_index": "1",
        "hostname": "node1",
        "pid": "77",
        "state": "connecting",
    }


def test_csv_has_a_column_for_each_figure():
    (row,) = table(to_csv(everything(), NOW))
    assert row.keys() >= {each.name for each in DEVICE_FIGURES} | {
        f"host_{each.name}" for each in HOST_FIGURES
    }
    assert "" not in {row[each.name] for each in DEVICE_FIGURES}
    assert (row["slowed"], row["host_cores"]) == ("heat; power brake", "1.009")
    assert row["host_busy_threads"] == f"load; load; {legible(HOSTILE)}"


@pytest.mark.parametrize("name", [HOSTILE, "\r", "a\rb", "a\nb", "a,b", '"', " a ", "", "=1+1"])
def test_csv_of_hostile_names_parses_to_these_names_and_steers_no_terminal(name):
    told = to_csv(cluster(name), NOW)
    assert [row["hostname"] for row in table(told)] == [legible(name), legible(name), "node1"]
    assert all(line.isprintable() for line in told.split("\n"))


# OpenMetrics


def metrics(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """The samples by name and labels; a sample told twice fails."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            of_name = found.setdefault(sample.name, {})
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in of_name
            of_name[labels] = sample.value
    return found


def test_openmetrics_are_read_by_prometheus():
    found = metrics(to_openmetrics(cluster(), NOW))
    place = {"run": "r1", "process_index": "0", "hostname": "node0"}
    device = {**place, "device": "0", "kind": "NVIDIA H100"}

    def value(name: str, labels: dict[str, str]) -> float:
        return found[name][tuple(sorted(labels.items()))]

    assert value("jaxtop_device_memory_used_bytes", {**device, "source": "allocator"}) == 1 << 33
    assert value("jaxtop_device_utilization_ratio", device) == 0.875
    assert value("jaxtop_device_power_watts", device) == 350.5
    assert value("jaxtop_launches_total", {**place, "function": "step"}) == 123
    assert value("jaxtop_steps_total", place) == 13
    assert value("jaxtop_step_metric", {**place, "metric": "loss"}) == 2.5
    assert value("jaxtop_process_cpu_ratio", place) == pytest.approx(1.503)
    states = {labels: on for labels, on in found["jaxtop_host_state"].items() if on}
    assert {(dict(labels)["hostname"], dict(labels)["jaxtop_host_state"]) for labels in states} == {
        ("node0", "live"),
        ("node1", "connecting"),
    }


def test_each_figure_is_a_metric_that_ends_in_its_unit():
    found = metrics(to_openmetrics(everything(), NOW))
    values = {name: list(samples.values()) for name, samples in found.items()}
    assert values["jaxtop_device_power_limit_watts"] == [700.0]
    assert values["jaxtop_device_energy_joules_total"] == [7.5]
    assert values["jaxtop_device_clock_hertz"] == [15e6]
    assert values["jaxtop_device_tensor_activity_ratio"] == [0.019]
    assert values["jaxtop_device_transfer_p99_seconds"] == [32e-6]
    assert values["jaxtop_device_pcie_received_bytes_per_second"] == [24]
    assert values["jaxtop_machine_cpu_pressure_ratio"] == [1.01]
    assert values["jaxtop_machine_disk_written_bytes_per_second"] == [1015]
    assert values["jaxtop_process_read_bytes_per_second"] == [1016]
    slowed = {dict(labels)["reason"]: holds for labels, holds in found["jaxtop_device_slowed"].items()}
    assert {why for why, holds in slowed.items() if holds} == {"heat", "power brake"} and len(slowed) == 6
    threads = {dict(labels)["thread"]: share for labels, share in found["jaxtop_thread_cpu_ratio"].items()}
    assert threads == {"load": pytest.approx(1.2), spelt(HOSTILE): pytest.approx(0.07)}
    of_figures = [
        name for name in found if name.startswith(("jaxtop_device", "jaxtop_machine", "jaxtop_process"))
    ]
    assert len(of_figures) >= len(DEVICE_FIGURES) + len(HOST_FIGURES)


def test_every_exported_metric_is_on_the_page_of_figures():
    page = (DOCS / "figures.md").read_text()
    exported = set(metrics(to_openmetrics(everything(), NOW)))
    names = {name.removeprefix("jaxtop_") for name in exported} | METRICS.keys()
    assert {"steps_total", "host_state", "device_memory_part_bytes"} <= names
    metric_of = {name: name.removesuffix("_total").removesuffix("_info") for name in names}
    missing = {
        name
        for name, metric in metric_of.items()
        if not any(f"`{each}`" in page for each in (metric, f"jaxtop_{metric}", f"jaxtop_{metric}_total"))
    }
    assert missing == set()


def test_openmetrics_of_a_process_that_is_over_have_its_state_and_versions_and_no_figures():
    over = cluster()
    over.apply("r1-0", wire.Bye(19_500, "ended"), 19.5)
    lines = [line for line in to_openmetrics(over, NOW).splitlines() if 'process_index="0"' in line]
    assert any('jaxtop_host_state="ended"' in line and line.endswith(" 1") for line in lines)
    assert {line.split("{")[0] for line in lines} == {"jaxtop_host_state", "jaxtop_host_info"}


def test_openmetrics_have_no_sample_where_nothing_is_known():
    found = metrics(to_openmetrics(cluster(), NOW))
    assert len(found["jaxtop_device_memory_used_bytes"]) == len(found["jaxtop_device_power_watts"]) == 1
    assert len(found["jaxtop_device_utilization_ratio"]) == 2
    of_unmet = {
        name for name, samples in found.items() for labels in samples if ("hostname", "node1") in labels
    }
    assert of_unmet == {"jaxtop_host_state"}


def spelt(name: str) -> str:
    """A name as it is after the format: its lines are its own, the rest is legible."""
    return "\n".join(map(legible, name.split("\n")))


def test_openmetrics_of_hostile_names_parse_to_these_names_and_steer_no_terminal():
    told = to_openmetrics(cluster(HOSTILE, HOSTILE, HOSTILE), NOW)
    assert all(line.isprintable() for line in told.split("\n"))
    found = metrics(told)
    (launches,) = found["jaxtop_launches_total"]
    assert dict(launches)["function"] == dict(launches)["hostname"] == spelt(HOSTILE)
    assert [dict(labels)["metric"] for labels in found["jaxtop_step_metric"]] == [spelt(HOSTILE)]


def test_openmetrics_of_runs_side_by_side_do_not_collide():
    both = cluster()
    tell(both, *running(0, 1, run="r2", at=19), *running(1, run="r1", at=19))
    tell(both, *((19, agent, pulse(launches={"step": 1})) for agent in ("r2-0", "r2-1", "r1-1")))
    assert len(metrics(to_openmetrics(both, NOW))["jaxtop_launches_total"]) == 4


def test_an_empty_cluster_can_be_written():
    nothing = Cluster()
    assert to_document(nothing, NOW)["hosts"] == []
    assert table(to_csv(nothing, NOW)) == []
    assert metrics(to_openmetrics(nothing, NOW)) == {}
    assert to_openmetrics(nothing, NOW) == "# EOF\n"
