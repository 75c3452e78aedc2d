"""What a probe decides before it measures: whose turn it is, and how large an array fits."""

from __future__ import annotations

from jaxtop import wire
from jaxtop.wire.probing import Here
from jaxtop_agent.probe import planning


def here(process: int, hostname: str, boot: str) -> Here:
    return Here(
        process=process,
        hostname=hostname,
        boot=boot,
        pid=1,
        jax="0.10.2",
        devices=(wire.Device(process, "cpu", "cpu"),),
        device_bytes=(None,),
        machine_bytes=planning.LEAST_ARRAY * 8,
        cache_bytes=0,
    )


class TestMachinesWithoutBootIds:
    """Not every system has them; the names of the hosts tell the machines apart then."""

    everyone = (here(0, "a", ""), here(1, "b", ""), here(2, "a", ""))

    def test_processes_of_different_machines_measure_at_the_same_time(self):
        assert planning.turns_of(self.everyone) == (0, 0, 1)

    def test_processes_share_the_memory_of_their_own_machine_only(self):
        assert planning._array(self.everyone, is_cpu=True) == planning._array(self.everyone[::2], is_cpu=True)
        assert planning._array(self.everyone[:2], is_cpu=True) == planning._array(
            self.everyone[:1], is_cpu=True
        )
        assert planning._array(self.everyone, is_cpu=True) < planning._array(self.everyone[:1], is_cpu=True)
