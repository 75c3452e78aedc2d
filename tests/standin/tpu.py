"""The metric service of the TPU's runtime, served by the real grpcio; messages are made by hand.

Layout and names: tpu_info/proto/tpu_metric_service.proto of Google's cloud-accelerator-diagnostics.
"""

from __future__ import annotations

import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc

from jaxtop.base.protobuf import bytes_field, number_field

NAME = "tpu.monitoring.runtime.RuntimeMetricService"
USED = "tpu.runtime.hbm.memory.usage.bytes"
TOTAL = "tpu.runtime.hbm.memory.total.bytes"
DUTY = "tpu.runtime.tensorcore.dutycycle.percent"
QUEUE = "hlo.queue.size.gauge"
PROGRAMS = "hlo.execution.timing.distribution.microseconds"
TRANSFERS = "megascale.dcn_transfer_latencies.microsecond.cumulative.distribution"


def _double(field, value):
    return bytes([field << 3 | 1]) + struct.pack("<d", value)


def _attribute(key, value):
    """`Attribute` with a whole number, a text or several attributes."""
    if isinstance(value, dict):
        inner = bytes_field(6, b"".join(bytes_field(1, _attribute(*each)) for each in value.items()))
    else:
        inner = number_field(3, value) if isinstance(value, int) else bytes_field(1, value.encode())
    return bytes_field(1, key.encode()) + bytes_field(2, inner)


def gauge(value, device, key="device-id"):
    """`Metric` of a device; a device may also be one of several attributes."""
    measured = number_field(1 << 1, value) if isinstance(value, int) else _double(1, value)
    # A point in time, which nobody reads, stands between: it must be stepped over.
    when = bytes_field(2, number_field(1, 1700000000))
    return bytes_field(1, _attribute(key, device)) + when + bytes_field(3, measured)


def distribution(counts, buckets, size="8MB+", attributes=None):
    """`Metric` with a distribution over these buckets: encoded options."""
    inner = number_field(1, sum(counts)) + _double(2, 1.5) + bytes_field(6, buckets)
    inner += bytes_field(7, b"".join(number_field(0, each)[1:] for each in counts))  # packed
    return bytes_field(1, _attribute("", attributes or {"buffer-size": size})) + bytes_field(5, inner)


def exponential(count, factor, scale):
    return bytes_field(2, number_field(1, count) + _double(2, factor) + _double(3, scale))


def explicit(*bounds):
    return bytes_field(3, bytes_field(1, struct.pack(f"<{len(bounds)}d", *bounds)))


def linear(count, width, offset):
    return bytes_field(4, number_field(1, count) + _double(2, width) + _double(3, offset))


class Service(grpc.GenericRpcHandler):
    """Says what it is given: the points of each metric. `hold` keeps all answers back until it is set."""

    def __init__(self):
        self.metrics = {}
        self.can_list = True
        self.status = None  # the bytes of a GetTpuRuntimeStatusResponse; None as in older runtimes
        self.asked = []
        self.hold = threading.Event()
        self.hold.set()
        self.port = 0

    def service(self, details):
        methods = {f"/{NAME}/GetRuntimeMetric": self._get}
        if self.status is not None:
            methods[f"/{NAME}/GetTpuRuntimeStatus"] = self._state
        if self.can_list:
            methods[f"/{NAME}/ListSupportedMetrics"] = self._list
        found = methods.get(details.method)
        return None if found is None else grpc.unary_unary_rpc_method_handler(found)

    def _list(self, _request, _context):
        self.hold.wait(20)
        return b"".join(bytes_field(1, bytes_field(1, name.encode())) for name in self.metrics)

    def _state(self, request, _context):
        self.hold.wait(20)
        self.asked.append(request)
        return self.status

    def _get(self, request, context):
        self.hold.wait(20)
        name = request[2:].decode()
        self.asked.append(name)
        if name not in self.metrics:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no metric {name}")
        points = b"".join(bytes_field(3, point) for point in self.metrics[name])
        return bytes_field(1, bytes_field(1, name.encode()) + bytes_field(2, b"what it is") + points)


@contextmanager
def found_by_the_agent(monkeypatch):
    """A service at the port where the agent looks for it."""
    with serving() as service:
        monkeypatch.setenv("TPU_RUNTIME_METRICS_PORTS", str(service.port))
        yield service


@contextmanager
def serving(*, local=True):
    """A service on a port of its own, with the credentials that libtpu's has, or with none."""
    service = Service()
    server = grpc.server(ThreadPoolExecutor(4), handlers=[service])
    if local:
        credentials = grpc.local_server_credentials(grpc.LocalConnectionType.LOCAL_TCP)
        service.port = server.add_secure_port("127.0.0.1:0", credentials)
    else:
        service.port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield service
    finally:
        service.hold.set()
        server.stop(None).wait()


def core(
    number, *, pc=0x3F2, place="%all-reduce.7", program=b"\xab\xcd", queued=1, error="", kind=1, chip=None
):
    """`CoreStatesEntry` of tpu_telemetry.proto: a core, and the sequencer that runs its program."""
    identity = (
        number_field(1, number)
        + number_field(2, number if chip is None else chip)
        + bytes_field(3, number_field(1, kind) + number_field(2, 0))
    )
    sequencer = (
        number_field(1, 1)
        + number_field(3, pc)
        + number_field(7, 77)
        + (bytes_field(8, place.encode()) if pc else b"")
    )
    waiting = b"".join(
        bytes_field(6, number_field(1, 78 + i) + number_field(2, 5 + i)) for i in range(queued)
    )
    state = (
        bytes_field(1, identity)
        + bytes_field(2, sequencer)
        + bytes_field(4, program if pc else b"")
        + number_field(5, 5)
    )
    state += waiting + (bytes_field(7, error.encode()) if error else b"")
    return number_field(1, number) + bytes_field(2, state)


def status(*cores):
    """`GetTpuRuntimeStatusResponse`."""
    return bytes_field(1, b"node0") + b"".join(bytes_field(2, each) for each in cores)
