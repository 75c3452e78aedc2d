"""Private names of JAX are looked up under all names that they have had."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from jaxtop_agent.jaxprivate.lookup import Missing, find, named


def test_a_renamed_attribute_is_found_whatever_its_value_is():
    """The state of the script's own profile is None while there is none."""
    older, newer = SimpleNamespace(profile_session=None), SimpleNamespace(session=None)
    assert named(older, "session", "profile_session") == "profile_session"
    assert named(newer, "session", "profile_session") == "session"
    for look_up in (find, named):
        with pytest.raises(Missing, match="no session or profile_session in state"):
            look_up(SimpleNamespace(__name__="state"), "session", "profile_session")
