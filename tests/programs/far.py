"""The relay end of a relay with a source of made frames: `far.py FRAMES BYTES [STOP_AFTER_S]`.

The source gives one link, then so many frames at each poll for three seconds, and then single ones.
"""

import sys
import time
from collections import Counter

from jaxtop import wire
from jaxtop.features.relay.relay_end import RelayEnd
from jaxtop.wire import LinkState

frames, size = int(sys.argv[1]), int(sys.argv[2])
stop_after = float(sys.argv[3]) if len(sys.argv) > 3 else float("inf")
AGENT = "a" * 16


class Refused(Exception):
    pass


class Made:
    is_settled = True
    notes = ("made",)

    def __init__(self):
        self.rejected = Counter({"made": 1})
        self.began = time.monotonic()
        self.count = 0
        self.asked = 0

    def poll(self, timeout):
        if time.monotonic() - self.began > stop_after:
            print("the far side was stopped", file=sys.stderr)
            sys.exit(9)
        if not self.count:
            self.count += 1
            return [wire.local_frame(0.0, AGENT, wire.Link(LinkState.UP, "host:1"))]
        is_flood = frames > 1 and time.monotonic() - self.began < 3
        if not is_flood:
            time.sleep(timeout)
        made = []
        for _ in range(frames if is_flood else min(frames, 1)):
            self.count += 1
            event = wire.Event(self.count, "info", "made", str(self.asked).ljust(size))
            made.append(wire.Frame(0.0, AGENT, "event", self.count, wire.encode(event)))
        return made

    def request(self, agent, request, done):
        self.asked += 1
        done(None if agent != AGENT else wire.Reply(request.what, at_ms=7))

    def close(self):
        pass


def open_source(wanted):
    if "nothing" in wanted.targets:
        raise Refused("there is nothing like it")
    if "count" in wanted.targets:
        raise Refused(f"{len(wanted.targets)} targets")
    return Made()


RelayEnd(0, 1, open_source, Refused).run()
