"""Runs that stall, pulse by pulse: with a rhythm, and before their first launches."""

from __future__ import annotations

from jaxtop import wire
from jaxtop.model import Cluster, diagnose
from tests.stories import hello, link, pulse, tell

MAIN = wire.Place("train.py", 91, "main")
VALUE = (
    MAIN,
    wire.Place("jax/_src/array.py", 600, "__float__"),
    wire.Place("jax/_src/array.py", 9, "_value"),
)
BEGAN = 100.0


class Run:
    """Hosts of a run that send a pulse each second; `stand` says since when, and where, some stand still."""

    def __init__(self, hosts: int = 8) -> None:
        self.cluster = Cluster()
        self.now = BEGAN
        self.stands: dict[int, tuple[wire.Place, ...] | None] = {}
        self.launches = dict.fromkeys(range(hosts), 50)
        self.compiling: dict[int, str] = {}
        self.silent: set[int] = set()
        for i in range(hosts):
            self.say(i, link("up"), hello(i, process_count=hosts, started_ms=1))

    def say(self, index: int, *messages: wire.Message) -> None:
        tell(self.cluster, *((self.now, f"r1-{index}", message) for message in messages))

    def stand(self, *indices: int, at: tuple[wire.Place, ...] | None) -> None:
        self.stands |= dict.fromkeys(indices, at)

    def go_on(self, seconds: int = 8, *, cpu: int | None = None) -> None:
        """Send pulses for so many seconds; `cpu` is what each process uses, unknown by default."""
        host = wire.HostSample(process_cpu_permille=cpu)
        for _ in range(seconds):
            self.now += 1
            at_ms = int(self.now * 1000)
            for i in set(self.launches) - self.silent:
                stall = wire.Stall("step", int(BEGAN * 1000) - 6000, 1000) if i in self.stands else None
                if stall and self.stands[i]:
                    thread = wire.Thread("MainThread", True, self.stands[i])
                    self.say(i, wire.Stacks(at_ms, (thread,)))
                name = self.compiling.get(i)
                compiling = (wire.Compiling(name, int(BEGAN * 1000)),) if name else ()
                counts = {"step": self.launches[i]}
                self.say(i, pulse(at_ms=at_ms, launches=counts, stall=stall, compiling=compiling, host=host))

    @property
    def stall_events(self) -> list[tuple[str, str]]:
        of_stalls = ("stalled", "goes on")
        return [(event.severity, event.text) for event in self.cluster.events if event.kind in of_stalls]

    @property
    def text(self) -> str:
        (only,) = self.stall_events
        return only[1]

    def diagnosis(self):
        return diagnose(self.cluster, "r1", self.now)


class Beginning(Run):
    """Hosts that have launched too little for a rhythm: each tells of a lull, and where it stands."""

    def lull(
        self,
        seconds: int = 30,
        *,
        cpu: int = 50,
        pressure: int | None = None,
        longest_ms: int = 0,
        begins: float = BEGAN,
    ) -> None:
        for _ in range(seconds):
            self.now += 1
            for i, launches in self.launches.items():
                at_ms = int(self.now * 1000)
                self.say(i, wire.Stacks(at_ms, (wire.Thread("MainThread", True, self.stands[i]),)))
                lull = wire.Lull("step" if launches else "", int(begins * 1000), longest_ms)
                counts = {"step": launches} if launches else {}
                host = wire.HostSample(process_cpu_permille=cpu, cpu_pressure_permille=pressure)
                self.say(i, pulse(at_ms=at_ms, launches=counts, lull=lull, host=host))
