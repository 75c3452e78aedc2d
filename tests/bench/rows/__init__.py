"""All rows: a new one is a function in a file here, and an entry below."""

from __future__ import annotations

from tests.bench.frame import Row
from tests.bench.rows import (
    app,
    census,
    commands,
    costs,
    cpu,
    gil,
    hlo,
    hook,
    memory,
    recordings,
    steps,
    windows,
    wire,
)

ROWS = (
    Row(
        name="cpu",
        what="CPU of the agent's threads in a training process of 8 devices, in % of a core, in the long run",
        control="the agent's own account of it (Pulse.cost.cpu_ppm)",
        spread="none of one long reading; of the control, 95 % bootstrap interval of the mean pulse",
        measure=cpu.measure,
    ),
    Row(
        name="costs",
        what="CPU of each thread of the agent, and of each collector, with everything on, in % of one core",
        control="of all threads, their clocks as the measuring side reads them",
        spread="none: one long reading, after the first minute",
        measure=costs.measure,
    ),
    Row(
        name="gil",
        what="longest hold of the GIL by the agent while a viewer arrives, seen by a spinning thread",
        control="no agent, but a thread that holds it for 1 ms, ten times a second",
        spread="shortest and longest of the windows' longest, around their median",
        measure=gil.hold,
    ),
    Row(
        name="keep",
        what="longest time for which an array outlives the script's last reference, while a viewer arrives",
        control="the same without an agent",
        spread="shortest and longest of the windows' longest, around their median",
        measure=gil.keep,
    ),
    Row(
        name="census",
        what="one look at all live arrays of 8 devices: its CPU, its memory, what is sent of it",
        control="none: these are costs by themselves; rows cpu, gil and keep set them beside controls",
        spread="95 % bootstrap interval of the median",
        measure=census.measure,
    ),
    Row(
        name="hlo",
        what="collectives out of the compiler's text of a very large program: CPU, and holds of the GIL",
        control="of CPU, cutting the text into lines; of holds, a thread that counts, and pauses as often",
        spread="smallest and largest of the repetitions, around their median",
        measure=hlo.measure,
    ),
    Row(
        name="memory",
        what="memory by which a training process grows more with the agent than without",
        control="two such processes without an agent, the difference of their growth",
        spread="smallest and largest of the pairs of processes, around their median",
        measure=memory.measure,
    ),
    Row(
        name="steps",
        what="step time with the agent and a viewer ÷ without, blocks interleaved in one process",
        control="as many blocks without ÷ without, of the same length (A/A)",
        spread="95 % bootstrap interval of the median of paired ratios",
        measure=steps.measure,
    ),
    Row(
        name="windows",
        what="what sampled windows of the profiler cost a training process of 8 devices",
        control="steps outside of windows against each other (A/A)",
        spread="of steps, 95 % bootstrap interval of the median; else smallest and largest",
        measure=windows.measure,
    ),
    Row(
        name="launch_hook",
        what="what the launch hook adds to a launch",
        control="launches without a hook against each other (A/A)",
        spread="95 % bootstrap interval of the median of paired differences",
        measure=hook.measure,
    ),
    Row(
        name="wire",
        what="bytes a device and second in steady state, one process of 8 devices that trains",
        control="bytes that TCP received: encrypted, with heartbeats and everything",
        spread="smallest and largest of the windows, around their median",
        measure=wire.measure,
    ),
    Row(
        name="app",
        what="the app on a terminal of 200×50: CPU, memory, time from a key to its paint",
        control="htop and glances on the same terminal, where they are installed",
        spread="of CPU, two readings; of keys, the fastest and the slowest",
        measure=app.measure,
    ),
    Row(
        name="recordings",
        what="a day of 64 hosts in one recording (quick: an hour of 16): size, cost, time to open and seek",
        control="of bytes a figure, what Gorilla (1.37) and Prometheus (1.3) published; of seeks, their CPU",
        spread="smallest and largest of the viewers, or of stretches of 20,000 frames, around their median",
        measure=recordings.measure,
    ),
    Row(
        name="help",
        what="wall time of `jaxtop --help`",
        control="`python -c pass` and `python -c 'import argparse'`, interleaved",
        spread="95 % bootstrap interval of the median",
        measure=commands.help_,
    ),
    Row(
        name="snapshot",
        what="wall time of `jaxtop snapshot` of a live run of one process",
        control="`jaxtop ls`, interleaved",
        spread="95 % bootstrap interval of the median",
        measure=commands.snapshot,
    ),
)
