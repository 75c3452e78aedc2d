"""The app in a browser: `--web` of `jaxtop attach` and `jaxtop replay`."""

from jaxtop.base.feature import Feature

FEATURE = Feature(
    "web",
    options={"attach": "jaxtop.features.web.option", "replay": "jaxtop.features.web.option"},
)
