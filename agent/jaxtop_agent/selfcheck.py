"""What this environment's JAX offers the agent, as JSON: run by `jaxtop doctor` in a process of its own."""

from __future__ import annotations

import json
import sys


def main() -> None:
    """Import JAX, which the command itself must not, and look; no backend is initialised."""
    import jax  # noqa: F401 - what jaxprivate reads is what this import leaves in sys.modules

    from jaxtop_agent import jaxprivate

    version, jaxlib = jaxprivate.versions()
    json.dump({"jax": version, "jaxlib": jaxlib, "features": jaxprivate.features()}, sys.stdout)


if __name__ == "__main__":
    main()
