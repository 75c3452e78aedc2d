"""Operations: where the time of a program goes, by operation and line, and what bounds each."""

from jaxtop.base.feature import Feature, Screen

FEATURE = Feature(
    "operations",
    screens=(
        Screen(
            "O",
            "Operations",
            "jaxtop.features.operations.screen:OperationsView",
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
