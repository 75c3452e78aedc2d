"""`jaxtop doctor --trace`: what jaxtop sees in one captured profile."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from jaxtop.base.names import legible, reason
from jaxtop.cli.errors import UserError
from jaxtop.traces import files, protos
from jaxtop.traces.contents import contents

if TYPE_CHECKING:
    from pathlib import Path

# Of the profiles in a folder, this many are named.
_MAX_NAMES = 3


def show(path: Path, *, is_json: bool) -> int:
    """Print the contents of the profile at this path; return the exit status."""
    try:
        profile = _only(files.find(path), path)
        trace = files.read(profile)
        found = contents(trace, protos.programs(trace), files.MOST_EVENTS)
    except files.NoProfile as why:
        raise UserError(legible(f"{path} {why}")) from None
    except (OSError, *files.UNREADABLE) as error:
        raise UserError(legible(f"{path} cannot be read: {reason(error)}")) from None
    # They import the model: errors must be fast.
    from jaxtop.features.captures.trace_document import as_json
    from jaxtop.features.captures.trace_table import lines

    if is_json:
        print(json.dumps({"file": str(profile), **as_json(found)}, indent=2))
    else:
        print(*lines(found), sep="\n")
    return 0


def _only(profiles: list[Path], path: Path) -> Path:
    if len(profiles) > 1:
        named = ", ".join(str(each) for each in profiles[:_MAX_NAMES])
        raise files.NoProfile(f"has {len(profiles)} profiles: name one of them, such as {named}")
    return profiles[0] if profiles else path
