"""Operations: where the time of a program goes, by operation and line, and what bounds each.

What is where, in the order in which to read it:

- model.py: where the time of each program goes
- rates.py: what the devices can do in a second
- screen.py, filters.py: the screen, and the fields of its filter
- pane.py, kinds_bar.py: the facts of one operation; the bar of a program, also on the Programs screen
- roofline.py: the roofline of a program
- document.py: the fields of programs in JSON
"""

from jaxtop.base.feature import Feature, ScreenEntry

FEATURE = Feature(
    "operations",
    screens=(
        ScreenEntry(
            "O",
            "Operations",
            "jaxtop.features.operations.screen:OperationsScreen",
            after="Programs",
            short="Ops",
            shows="where the time of each program goes, and what bounds each operation",
            page="operations.md",
        ),
    ),
    hooks={
        "program_fields": "jaxtop.features.operations.document:program_fields",
        "program_lines": "jaxtop.features.operations.kinds_bar:program_lines",
    },
)
