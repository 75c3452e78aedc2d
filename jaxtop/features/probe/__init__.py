"""The probe: what idle devices and links can do, slow ones by name, and the best devices for a mesh."""

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
)
