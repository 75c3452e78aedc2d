"""The probe: what idle devices and links can do, slow ones by name, and the best devices for a mesh.

What is where, in the order in which to read it:

- command.py: `jaxtop probe`
- processes.py: the processes of a probe on this machine
- verdict.py: the result, from what the processes measured
- peers.py: finds slow members among equal devices
- figures.py: the figures that a probe measures
- table.py: the result as text
- live_comparison.py: the last result compared with live figures, on screens of the core
- place.py: `jaxtop place`
- placement.py: ranks devices, and chooses those of a mesh
- choosing.py: `best_devices()`, for scripts
- messages.py: what processes say to choose the same devices
"""

from jaxtop.base.feature import Command, Feature

FEATURE = Feature(
    "probe",
    commands={
        "probe": Command(
            "measure idle devices and links, and name slow ones", "jaxtop.features.probe.command"
        ),
        "place": Command(
            "rank the devices of this machine or of a run by free memory and probed rates",
            "jaxtop.features.probe.place",
        ),
    },
    attributes={"plan": "jaxtop.plan"},
    hooks={
        "device_lines": "jaxtop.features.probe.live_comparison:device_lines",
        "bandwidth_note": "jaxtop.features.probe.live_comparison:bandwidth_note",
    },
)
