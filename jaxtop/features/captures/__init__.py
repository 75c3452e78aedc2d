"""Full profiles of several hosts, as files: XProf's folder, and one merged trace for Perfetto.

What is where, in the order in which to read it:

- command.py: `jaxtop capture`
- app_capturer.py: captures that the user takes in the app
- capture.py: a capture of several processes
- member.py: one process of a capture
- finish.py: the merged trace and the summary of a capture
- clocks.py: how the clocks of hosts relate, from shared collectives
- merged_trace.py: one trace of all hosts
- perfetto.py: writes Perfetto's trace format
- folder.py: the files of a capture, as XProf reads them
- comparison.py: how much longer launches look in a capture than in windows
- result.py: the files of a capture, and what is printed about them
- trace_option.py: the option `--trace` of `jaxtop doctor`
- doctor_trace.py: `jaxtop doctor --trace`
- trace_document.py: the contents of a trace as JSON
- trace_table.py: the contents of a trace as text
"""

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
