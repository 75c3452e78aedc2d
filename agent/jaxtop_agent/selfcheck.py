"""Prints as JSON which agent features work with this JAX; `jaxtop doctor` runs it in a separate process."""

from __future__ import annotations

import json
import sys


def main() -> None:
    """Import JAX, which the command itself must not do, and check it; no backend is initialised."""
    import jax  # noqa: F401 - jaxprivate reads the modules that this import leaves in sys.modules

    from jaxtop_agent import jaxprivate
    from jaxtop_agent.core import settings

    version, jaxlib = jaxprivate.versions()
    features = jaxprivate.features()
    if settings.read().collectives == "off":
        features["collectives"] = "off: JAXTOP_COLLECTIVES=off"
    json.dump({"jax": version, "jaxlib": jaxlib, "features": features}, sys.stdout)


if __name__ == "__main__":
    main()
