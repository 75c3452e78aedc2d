"""What an engine serves as Prometheus text: samples, rates, percentiles; read from this machine alone."""

from __future__ import annotations

import http.server
import json
import threading
import time
from math import inf, nan
from types import SimpleNamespace

import msgspec
import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from jaxtop.model import figure_series
from jaxtop.model.figures import scalar_figure
from jaxtop_agent.core import settings
from jaxtop_agent.core.settings import ServedAt
from jaxtop_agent.served import figures as served_figures
from jaxtop_agent.served import scraper
from jaxtop_agent.served.exposition import samples
from jaxtop_agent.served.figures import MOST_FIGURES, ServedFigures
from jaxtop_agent.served.scraper import MAX_FAILURES, Scraper
from tests import builders
from tests.stage import shown_after
from tests.support import PYTHON, environment, jaxtop, processes, run, script, until_a_run_is_found, viewer

# In the form of vLLM 0.9 and of JetStream: names with colons, labels, seconds of creation.
ENGINE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="Qwen/Qwen3-0.6B"}} {running}
# TYPE vllm:request_success_total counter
vllm:request_success_total{{engine="0",finished_reason="stop",model_name="Qwen/Qwen3-0.6B"}} {stop}
vllm:request_success_total{{engine="0",finished_reason="length",model_name="Qwen/Qwen3-0.6B"}} 5.0
# TYPE vllm:request_success_created gauge
vllm:request_success_created{{engine="0",finished_reason="stop",model_name="Qwen/Qwen3-0.6B"}} 1.7e+09
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_sum{{engine="0",model_name="Qwen/Qwen3-0.6B"}} 1.5
vllm:time_to_first_token_seconds_bucket{{engine="0",le="0.1",model_name="Qwen/Qwen3-0.6B"}} {fast}
vllm:time_to_first_token_seconds_bucket{{engine="0",le="0.5",model_name="Qwen/Qwen3-0.6B"}} {all}
vllm:time_to_first_token_seconds_bucket{{engine="0",le="+Inf",model_name="Qwen/Qwen3-0.6B"}} {all}
vllm:time_to_first_token_seconds_count{{engine="0",model_name="Qwen/Qwen3-0.6B"}} {all}
# TYPE python_gc_objects_collected_total counter
python_gc_objects_collected_total{{generation="0"}} 462.0
"""


def engine(**values: float) -> str:
    return ENGINE.format(**{"running": 2.0, "stop": 150.0, "fast": 100.0, "all": 200.0, **values})


def test_rates_and_percentiles_are_of_the_time_since_the_last_text():
    figures = ServedFigures()
    assert figures.take(engine(), 100.0) == {"vllm:num_requests_running": 2.0}
    found = figures.take(engine(running=3.0, stop=160.0, fast=110.0, all=240.0), 105.0)
    assert found == {
        "vllm:num_requests_running": 3.0,
        "vllm:request_success /s{finished_reason=stop}": 2.0,
        "vllm:request_success /s{finished_reason=length}": 0.0,
        # Of 40 requests 10 took less than 0.1 s; the 20th is a third of the way from there to 0.5 s.
        "vllm:time_to_first_token_seconds p50": pytest.approx(0.1 + 0.4 / 3),
        "vllm:time_to_first_token_seconds p99": pytest.approx(0.1 + 0.4 * 29.6 / 30),
        "vllm:time_to_first_token_seconds_count /s": 8.0,
    }


def test_without_requests_there_is_no_percentile_and_an_engine_that_begins_again_has_no_rate():
    figures = ServedFigures()
    figures.take(engine(), 100.0)
    assert not any("p50" in name for name in figures.take(engine(), 105.0))
    assert "vllm:request_success /s{finished_reason=stop}" not in figures.take(engine(stop=1.0), 110.0)


def test_the_samples_are_those_that_another_reader_finds():
    registry = CollectorRegistry()
    odd = 'a"b\\c\nd{e="f",g}'
    Gauge("queue", "Waiting", ["model", "odd"], registry=registry).labels("m", odd).set(nan)
    Counter("tokens", "Tokens", registry=registry).inc(7)
    Summary("size_bytes", "Size", registry=registry).observe(3)
    latency = Histogram("latency_seconds", "Latency", ["model"], buckets=(0.1, 1), registry=registry)
    latency.labels("m").observe(0.3, {"trace_id": "1 2"})
    for text in (generate_latest(registry), generate_openmetrics(registry)):
        found = {(each.name, frozenset(each.labels), str(each.value)) for each in samples(text.decode())}
        other = {
            (each.name, frozenset(each.labels.items()), str(each.value))
            for family in text_string_to_metric_families(generate_latest(registry).decode())
            for each in family.samples
        }
        assert {each for each in other if not each[0].endswith("_created")} <= found


@pytest.mark.parametrize(
    "line",
    [
        "",
        "queue",
        "queue 1 2 3",
        'queue{a="b} 1',
        "queue{a=1} 1",
        "queue one",
        "0queue 1",
        "{} 1",
        "x" * 9_000,
    ],
)
def test_what_is_no_sample_is_left_out(line):
    assert list(samples(f"{line}\nqueue 3\n")) == [("queue", (), 3.0)]


def test_summaries_have_their_own_percentiles_and_what_is_not_finite_is_left_out():
    text = 'wait_seconds{quantile="0.5"} 0.2\nwait_seconds{quantile="0.99"} NaN\n'
    text = f"# TYPE wait_seconds summary\n{text}wait_seconds_sum 9\nwait_seconds_count 4\nqueue +Inf\n"
    assert ServedFigures().take(text, 1.0) == {"wait_seconds p50": 0.2}


def test_of_many_figures_those_of_requests_are_kept():
    text = "".join(f"a{number} 1\nrequests_{number:02} 1\n" for number in range(MOST_FIGURES))
    assert list(ServedFigures().take(text, 1.0)) == [
        f"requests_{number:02}" for number in range(MOST_FIGURES)
    ]


@pytest.mark.parametrize(
    ("buckets", "share", "value"),
    [
        ([(1.0, 0.0), (inf, 0.0)], 0.5, None),
        ([(1.0, 4.0), (2.0, 4.0), (inf, 4.0)], 0.5, 0.5),
        ([(1.0, 0.0), (2.0, 0.0), (inf, 4.0)], 0.5, 2.0),  # beyond the last bound
        ([(1.0, 4.0), (2.0, 4.0)], 0.5, None),  # cut
        ([(-1.0, 4.0), (inf, 4.0)], 0.5, -1.0),
    ],
)
def test_a_percentile_lies_between_the_bounds_of_a_bucket(buckets, share, value):
    assert served_figures._percentile(buckets, share) == value


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("http://127.0.0.1:8000/metrics", "http://127.0.0.1:8000/metrics"),
        ("localhost:9090", "http://127.0.0.1:9090/metrics"),
        ("8000", "http://127.0.0.1:8000/metrics"),
        (":8000/stats?format=prometheus", "http://127.0.0.1:8000/stats?format=prometheus"),
        ("http://[::1]:8000", "http://[::1]:8000/metrics"),
        ("off", None),
        ("http://node7:8000/metrics", None),
        ("http://127.0.0.1.evil.example:8000/metrics", None),
        ("http://10.0.0.1:8000", None),
        ("https://127.0.0.1:8000", None),
        ("127.0.0.1:0", None),
        ("127.0.0.1:99999", None),
        ("8000/a b", None),
        ("http://user@127.0.0.1:8000", None),
        ("http://127.0.0.1:8000/\r\nHost: evil", None),
    ],
)
def test_only_addresses_of_this_machine_are_read(given, used):
    found = settings.read(scrape=given)
    assert (None if found.scrape is None else str(found.scrape)) == used
    assert bool(found.ignored) == (used is None and given != "off")


SERVES = """
import sys, time
from prometheus_client import Counter, Gauge, Histogram, start_http_server
server, _ = start_http_server(0, addr="127.0.0.1")
port = server.server_port
from jaxtop import agent
agent.start(name="engine", role="engine", scrape=f"http://127.0.0.1:{port}/metrics")
import jax, jax.numpy as jnp
decode = jax.jit(lambda x: x * 0.5 + 1)
x = decode(jnp.ones(8))
requests, waiting = Counter("app_requests", "Requests"), Gauge("app_requests_waiting", "Waiting")
latency = Histogram("app_latency_seconds", "Latency", buckets=(0.1, 0.2, 0.4))
waiting.set(3)
while True:
    x = decode(x)
    requests.inc()
    latency.observe(0.15)
    time.sleep(0.05)
"""


@pytest.mark.jax
@pytest.mark.newest
def test_a_real_engine_has_its_figures_in_the_json_and_the_plot(tmp_path):
    with processes([PYTHON, script(tmp_path, SERVES)], env=environment(1)):
        until_a_run_is_found()
        with viewer("engine") as attached:

            def served():
                return next((host.pulse.served for host in attached.cluster.hosts.values()), {})

            attached.until(lambda: "app_latency_seconds p50" in served())
            found = served()
            (agent_id,) = attached.cluster.hosts
            figure = scalar_figure("app_requests_waiting")
            attached.until(lambda: len(figure_series(attached.cluster, agent_id, figure, 0)) > 1)
            curve = [value for _, value in figure_series(attached.cluster, agent_id, figure, 0)]
            shown = json.loads(jaxtop("snapshot", "--json", "engine").stdout)["hosts"][0]
    assert 0.1 < found["app_latency_seconds p50"] <= 0.2
    assert 0 < found["app_requests /s"] <= 20 and found["app_requests_waiting"] == 3.0
    assert set(curve) == {3.0}
    assert shown["served"]["app_requests_waiting"] == 3.0 and shown["sources"]["served figures"] == "on"


class StandIn:
    """The board of an agent, and what an engine answers."""

    def __init__(self, monkeypatch):
        self.answer = ""
        self.board = SimpleNamespace(sources={}, served=SimpleNamespace(figures={}))
        monkeypatch.setattr(scraper, "fetched", lambda _: self.asked())
        self.scraper = Scraper(self.board, ServedAt("127.0.0.1", 8000, "/metrics"))

    def asked(self):
        if not self.answer:
            raise ValueError("it answers 404 Not Found")
        return self.answer

    def look(self):
        self.scraper._scrape()
        return self.board.sources["served figures"]


def test_where_nothing_is_served_it_waits_for_a_while_and_is_off_then(monkeypatch):
    engine = StandIn(monkeypatch)
    said = [engine.look() for _ in range(MAX_FAILURES)]
    why = "http://127.0.0.1:8000/metrics does not serve them: it answers 404 Not Found"
    assert said == [*[f"waiting: {why}"] * (MAX_FAILURES - 1), f"off: {why}"]
    engine.answer = "<html><p>hello 5</p></html>"
    assert engine.look() == "off: http://127.0.0.1:8000/metrics serves no figures"
    engine.answer = "# TYPE a counter\na_total 5\n"
    assert engine.look() == "on", "rates come with the next text"


def test_a_histogram_without_a_bound_has_no_percentiles():
    figures = ServedFigures()
    for count in (0, 10):
        found = figures.take(f'a_bucket{{le="+Inf"}} {count}\na_count {count}\n', 5.0 + count)
    assert not [name for name in found if "p50" in name or "p99" in name]


def test_the_pane_of_a_host_has_them():
    pulse = msgspec.structs.replace(builders.pulse(0), served={"ttft_seconds p50": 0.25, "queue[/b]": 3.0})
    shown = shown_after(
        *builders.well(), builders.frame(builders.agent_id(0), pulse), keys="3", size=(120, 50)
    )
    assert "the engine serves" in shown and "ttft_seconds p50 0.25" in shown and "queue[/b] 3" in shown


class Silent(http.server.BaseHTTPRequestHandler):
    """A server that takes a request and answers nothing, or what is not wanted."""

    answer = ""

    def do_GET(self):
        if not self.answer:
            time.sleep(60)
        elif self.answer == "redirect":
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.end_headers()
        else:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"x" * (5 << 20))

    def log_message(self, *_):
        pass


ENDS = """
import sys, time
from jaxtop import agent
handle = agent.start(name="ends")
import jax.numpy as jnp
print(float(jnp.ones(8).sum()))
time.sleep(4)
sys.exit(3)
"""


@pytest.mark.jax
@pytest.mark.newest
@pytest.mark.parametrize("answer", ["", "redirect", "long"], ids=["nothing", "elsewhere", "too much"])
def test_whatever_a_server_answers_the_script_ends_as_usual(tmp_path, answer):
    asked: list[str] = []

    class Handler(Silent):
        def do_GET(self):
            asked.append(self.path)
            super().do_GET()

    Handler.answer = answer
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        env = environment(1, JAXTOP_SCRAPE=f"127.0.0.1:{server.server_port}")
        done = run(PYTHON, script(tmp_path, ENDS), env=env)
        server.shutdown()
    assert (done.returncode, done.stdout, done.stderr) == (3, "8.0\n", "")
    assert set(asked) == {"/metrics"}
