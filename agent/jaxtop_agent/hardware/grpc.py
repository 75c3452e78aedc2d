"""Calls of a gRPC service on this machine: several over one connection, within one deadline.

grpcio would bring threads, fork handlers and 10 MB of code into the training process. h2 implements HTTP/2 in
plain Python, and gRPC adds little to it.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import TYPE_CHECKING
from urllib.parse import unquote

import h2.config
import h2.connection
import h2.events
import h2.exceptions

if TYPE_CHECKING:
    from collections.abc import Sequence

HOSTS = ("127.0.0.1", "::1")  # tpu-info connects to "localhost", which needs a name lookup
# The most bytes of one answer; a service that sends more is not the metric service.
MOST_BYTES = 1 << 22
# Status codes of gRPC.
DEADLINE_EXCEEDED, UNIMPLEMENTED = 4, 12


class GrpcFailed(Exception):
    """The service is absent, does not answer in time, or does not speak HTTP/2."""


class Response:
    """The answer to one request: a message, or a status other than 0."""

    def __init__(self) -> None:
        self.raw = b""
        self.status: int | None = None
        self.text = ""
        self.is_done = False

    @property
    def message(self) -> bytes | None:
        """The only message of a unary call."""
        if self.status != 0 or len(self.raw) < 5:
            return None
        is_compressed, size = struct.unpack(">BI", self.raw[:5])
        return None if is_compressed or size != len(self.raw) - 5 else self.raw[5:]


def call(port: int, path: str, requests: Sequence[bytes], seconds: float) -> list[Response]:
    """Return the answers to all requests, in the order of the requests."""
    deadline = time.monotonic() + seconds
    try:
        with _connected(port, deadline) as connection:
            return _converse(connection, path, requests, deadline)
    except TimeoutError:
        raise GrpcFailed("no answer in time") from None
    except (OSError, h2.exceptions.ProtocolError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise GrpcFailed(why or type(error).__name__) from None


def _connected(port: int, deadline: float) -> socket.socket:
    failures = []
    for host in HOSTS:
        try:
            return socket.create_connection((host, port), timeout=max(0.001, deadline - time.monotonic()))
        except TimeoutError:
            raise
        except OSError as error:
            failures.append(error)
    raise failures[0]


def _converse(
    connection: socket.socket, path: str, requests: Sequence[bytes], deadline: float
) -> list[Response]:
    speech = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None))
    speech.initiate_connection()
    answers: dict[int, Response] = {}
    for request in requests:
        stream = speech.get_next_available_stream_id()
        answers[stream] = Response()
        speech.send_headers(stream, _headers(connection, path, deadline))
        speech.send_data(stream, struct.pack(">BI", 0, len(request)) + request, end_stream=True)
    connection.sendall(speech.data_to_send())
    while not all(answer.is_done for answer in answers.values()):
        left = deadline - time.monotonic()
        if left <= 0:
            raise GrpcFailed("no answer in time")
        connection.settimeout(left)
        came = connection.recv(65536)
        if not came:
            raise GrpcFailed("the connection was closed")
        for event in speech.receive_data(came):
            _take(speech, answers, event)
        connection.sendall(speech.data_to_send())
    if any(answer.status == DEADLINE_EXCEEDED for answer in answers.values()):
        raise GrpcFailed("no answer in time")  # the service's deadline passed before ours
    return list(answers.values())


def _headers(connection: socket.socket, path: str, deadline: float) -> list[tuple[str, str]]:
    return [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", f"localhost:{connection.getpeername()[1]}"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("grpc-timeout", f"{max(1, int((deadline - time.monotonic()) * 1000))}m"),
    ]


def _take(speech: h2.connection.H2Connection, answers: dict[int, Response], event: h2.events.Event) -> None:
    if isinstance(event, h2.events.ConnectionTerminated):
        raise GrpcFailed("the service closed the connection")
    answer = answers.get(getattr(event, "stream_id", 0) or 0)
    if answer is None:
        return
    if isinstance(event, h2.events.DataReceived):
        answer.raw += event.data
        if len(answer.raw) > MOST_BYTES:
            raise GrpcFailed("the answer does not end")
        speech.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
    elif isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
        for name, value in event.headers:  # an error has no trailers, only headers
            if name == b"grpc-status" and value.isdigit():
                answer.status = int(value)
            elif name == b"grpc-message":
                answer.text = unquote(value.decode(errors="replace"))
    elif isinstance(event, h2.events.StreamEnded | h2.events.StreamReset):
        answer.is_done = True
