"""A viewer under measurement: follow the newest live run, and report what was received."""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import sys
import time
from collections import Counter
from contextlib import suppress
from typing import Any

from jaxtop import wire
from jaxtop.base import keys
from jaxtop.sources import LiveSource, discovery
from jaxtop.store import runfiles

# The offset of the received bytes in Linux's struct tcp_info.
TCP_BYTES_RECEIVED = 128


class Tally:
    """The messages and bytes received since the last reading."""

    def __init__(self) -> None:
        self._bytes: Counter[str] = Counter()
        self._messages: Counter[str] = Counter()
        self._costs_ppm: list[int] = []
        self._received = 0

    def add(self, frame: wire.Frame) -> None:
        if frame.sequence == 0:  # made on this side
            return
        header = wire.Header(wire.VERSION, frame.agent, frame.sequence)
        self._bytes[frame.kind] += sum(map(len, wire.pack(frame.kind, header, frame.raw)))
        self._messages[frame.kind] += 1
        if frame.kind == "pulse":
            pulse = wire.decode("pulse", frame.raw)
            assert isinstance(pulse, wire.Pulse)
            if pulse.cost.cpu_ppm is not None:
                self._costs_ppm.append(pulse.cost.cpu_ppm)

    def take(self) -> dict[str, Any]:
        received, self._received = self._received, _received_by_tcp()
        taken = {
            "bytes": dict(self._bytes),
            "messages": dict(self._messages),
            "costs_ppm": self._costs_ppm,
            "tcp_bytes": self._received - received,
        }
        self._bytes, self._messages, self._costs_ppm = Counter(), Counter(), []
        return taken


def _received_by_tcp() -> int:
    """Return the bytes received on this process's open connections, with encryption and framing."""
    total = 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError), socket.socket(fileno=os.dup(int(name))) as twin:
            if twin.family in (socket.AF_INET, socket.AF_INET6) and twin.type == socket.SOCK_STREAM:
                info = twin.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                total += struct.unpack_from("Q", info, TCP_BYTES_RECEIVED)[0]
    return total


def _newest() -> str | None:
    """Return the address of the newest live run: a restarted agent may have another port."""
    living = [each.hello for each in runfiles.find() if not each.is_stale]
    return living[0].telemetry if living else None


def main() -> None:
    """Read all frames; answer each line on standard input with the tally."""
    source, at = LiveSource(discovery.seeds([]), keys.load()), _newest()
    tally, look_at = Tally(), 0.0
    while True:
        for frame in source.poll(0.2):
            tally.add(frame)
        if select.select([sys.stdin], [], [], 0)[0]:
            if not sys.stdin.readline():
                return
            print(json.dumps({"answer": tally.take()}), flush=True)
        if time.monotonic() > look_at:
            look_at = time.monotonic() + 0.5
            newest = _newest()
            if newest not in (None, at):
                source.close()
                source, at = LiveSource(discovery.seeds([]), keys.load()), newest


if __name__ == "__main__":
    main()
