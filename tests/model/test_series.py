"""What a viewer remembers of all figures: as it was told, for as long as the history is."""

from __future__ import annotations

import pytest

from jaxtop import wire
from jaxtop.model import (
    DEVICE_FIGURES,
    FIGURES,
    HOST_FIGURES,
    MEMORY,
    STEP_FIGURES,
    Cluster,
    Scope,
    device_views,
    figure_series,
    keyframe,
    recent,
    reported_figures,
)
from jaxtop.model.figures import figures_of
from jaxtop.model.state import HISTORY
from tests.builders import NOW, agent_id, folded, hello
from tests.stories import host_sample, pulse

AGENT = agent_id(0)
COLUMNS = wire.DeviceSample.__struct_fields__
DEVICES = wire.DeviceSample(*((number, None, 2 * number) for number, _ in enumerate(COLUMNS, 1)))
HOST = host_sample(is_container=True, busy_threads=(wire.BusyThread("MainThread", 990, True),))


def followed(*pulses: wire.Pulse, **more: bool) -> Cluster:
    cluster = Cluster(**more)
    cluster.apply(AGENT, hello(0, devices=3), NOW)
    for i, each in enumerate(pulses):
        cluster.apply(AGENT, each, NOW + i)
    return cluster


@pytest.mark.parametrize("figure", [*DEVICE_FIGURES, *HOST_FIGURES], ids=lambda figure: figure.name)
def test_every_figure_is_remembered_as_it_was_told(figure):
    told = pulse(devices=DEVICES, host=HOST)
    cluster = followed(told, pulse())
    for position in (0, 1, 2):
        now = figure.read(told, position)
        assert figure_series(cluster, AGENT, figure, position) == [(NOW, now), (NOW + 1, None)]
    assert figure.read(told, 0) is not None


def test_where_nothing_is_drawn_the_past_is_that_of_hosts_alone():
    cluster = followed(pulse(devices=DEVICES, host=HOST), is_drawn=False)
    told = pulse(devices=DEVICES, host=HOST)
    for each in HOST_FIGURES:
        assert figure_series(cluster, AGENT, each) == [(NOW, each.read(told, 0))]
    for each in set(DEVICE_FIGURES) - {MEMORY}:
        assert figure_series(cluster, AGENT, each) == [(NOW, None)]
    whole = followed(pulse(devices=DEVICES, host=HOST))
    assert cluster.past_figures[AGENT][0][1] != whole.past_figures[AGENT][0][1] and cluster == whole


def test_no_two_figures_share_a_name():
    of_devices, *others = map(figures_of, Scope)
    of_hosts = [each for scope in others for each in scope]
    table = [*of_devices, *of_hosts]
    metrics = [each.metric for each in table if each.metric]
    assert len(FIGURES) == len(table) and len(set(metrics)) == len(metrics)
    for together in (of_devices, of_hosts):
        names = [name for each in together for name in each.filters]
        assert len(set(names)) == len(names)


def test_a_device_that_is_not_there_has_no_figures():
    cluster = followed(pulse(devices=DEVICES, host=HOST))
    assert [figure_series(cluster, AGENT, each, 7) for each in DEVICE_FIGURES] == [[(NOW, None)]] * len(
        DEVICE_FIGURES
    )
    assert figure_series(cluster, "nobody", DEVICE_FIGURES[0], 0) == []


def test_as_much_is_remembered_of_each_figure_as_of_the_memory():
    pulses = [
        pulse(devices=wire.DeviceSample(used_bytes=(i,), power_mw=(i * 1000,))) for i in range(HISTORY + 5)
    ]
    cluster = followed(*pulses)
    memory, power = DEVICE_FIGURES[0], next(each for each in DEVICE_FIGURES if each.name == "power_w")
    for figure in (memory, power):
        assert figure_series(cluster, AGENT, figure, 0) == [(NOW + i, i) for i in range(5, HISTORY + 5)]
        assert recent(cluster, AGENT, figure, 0, 3) == [HISTORY + 2, HISTORY + 3, HISTORY + 4]


def test_what_is_paused_does_not_go_on_by_itself():
    cluster = followed(pulse(host=HOST))
    paused = cluster.frozen()
    cluster.apply(AGENT, pulse(), NOW + 1)
    assert [len(figure_series(each, AGENT, HOST_FIGURES[0])) for each in (paused, cluster)] == [1, 2]


def test_a_keyframe_is_the_model_though_its_other_figures_begin_there():
    cluster = followed(pulse(devices=DEVICES), pulse(devices=DEVICES))
    again = folded(keyframe.frames(cluster, NOW + 1))
    assert again.past_pulses == cluster.past_pulses
    assert [at for at, _ in figure_series(again, AGENT, DEVICE_FIGURES[0])] == [NOW, NOW + 1]
    assert [at for at, _ in figure_series(again, AGENT, DEVICE_FIGURES[6])] == [NOW + 1]


def test_the_rhythm_is_remembered_too():
    cluster = followed(pulse(), pulse(rhythm=wire.Rhythm(1, ("step",), mean_us=20_000, milli_per_s=49_500)))
    told = [figure_series(cluster, AGENT, figure) for figure in STEP_FIGURES]
    assert told == [[(NOW, None), (NOW + 1, pytest.approx(value))] for value in (0.02, 49.5)]


def test_only_figures_that_some_process_reports_are_listed():
    quiet, hot = pulse(), pulse(devices=wire.DeviceSample(temperature_c=(None, 71)))
    busy = pulse(host=wire.HostSample(memory_used_bytes=5))
    assert reported_figures([quiet]) == set()
    steady = pulse(rhythm=wire.Rhythm(1, mean_us=20_000))
    assert reported_figures([quiet, hot, busy, steady]) == {"temperature_c", "memory_used_bytes", "mean_ms"}
    assert device_views(followed(hot), NOW)[1].read(DEVICE_FIGURES[7]) == 71
