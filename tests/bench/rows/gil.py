"""The longest hold of the GIL by the agent.

A thread that spins in Python sees a hold as a gap. It resolves some 50 µs. A thread that waits for the GIL
asks for it after 5 ms (`sys.getswitchinterval`), so that Python code never holds it for longer at a stretch:
gaps beyond that are calls into C. What a gap was the probe tells by having slept in it, and takes off what it
and the agent's Python threads queued for a core; what it cannot take off is a holder slowed down by others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench.frame import Figure, largest
from tests.bench.processes import Trainer, Viewer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.frame import Setting

BUDGET_MS = 5.0


def measure(setting: Setting) -> Iterator[Figure]:
    # With several devices an array is several buffers, and what JAX does to list it takes as much longer.
    for arrays, devices in setting.pick(((100, 8), (10_000, 1), (10_000, 8)), ((100, 8),)):
        with Trainer(arrays, devices) as trainer:
            trainer.do("start")
            with Viewer():
                trainer.do("await_viewers", viewers=1)
                with_agent, without = [], []
                for _ in range(setting.pick(6, 2)):
                    trainer.do("stop")
                    without.append(_longest_ms(trainer.do("gaps", seconds=2.5)))
                    with_agent.append(_longest_ms(trainer.do("gaps", seconds=2.5, start=True)))
                    trainer.do("await_viewers", viewers=1)
        of = "device" if devices == 1 else "devices"
        yield Figure(
            f"{arrays:,} live arrays on {devices} {of}",
            largest(with_agent),
            "ms",
            control=largest(without),
            budget=BUDGET_MS,
        )


def _longest_ms(gaps: list[float]) -> float:
    return max(gaps, default=0.0) * 1000
