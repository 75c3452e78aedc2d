"""What a build adds to the metadata: links to the project, and a README that other pages can show.

The address is given when a release is built: `JAXTOP_ADDRESS=https://… python -m build`. Without it there are
no links to the project, because a link that leads elsewhere is worse than none.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# A link or an image of Markdown whose target is a file of the repository.
_RELATIVE = re.compile(r"(!?)(\[[^\]]*\])\((?!https?:|#)([^)\s]+)\)")
_PAGES = {
    "Documentation": "blob/HEAD/README.md",
    "Changelog": "blob/HEAD/CHANGELOG.md",
    "Issues": "issues",
}


class ProjectLinks(MetadataHookInterface):
    """The hook that hatchling runs before it writes metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the README and, if there is an address, the links."""
        address = os.environ.get("JAXTOP_ADDRESS", "").rstrip("/")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        if address:
            if not address.startswith("https://"):
                raise ValueError(f"JAXTOP_ADDRESS is {address}: it must begin with https://")
            metadata["urls"] = {
                "Source": address,
                **{name: f"{address}/{page}" for name, page in _PAGES.items()},
            }
            text = _RELATIVE.sub(lambda found: _absolute(address, *found.groups()), text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def _absolute(address: str, mark: str, label: str, path: str) -> str:
    """Return a link to the page of a file, or to the bytes of an image."""
    return f"{mark}{label}({address}/{'raw' if mark else 'blob'}/HEAD/{path})"
