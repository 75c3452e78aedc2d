"""Full profiles of several hosts, as files: XProf's folder, and one merged trace for Perfetto."""

from jaxtop.base.feature import Command, Feature

FEATURE = Feature(
    "captures",
    commands={
        "capture": Command(
            "take a full profile of several processes at once, for XProf and Perfetto",
            "jaxtop.features.captures.command",
        ),
    },
    options={"doctor": "jaxtop.features.captures.trace_option"},
    hooks={"app_capturer": "jaxtop.features.captures.app_capturer:AppCapturer"},
)
