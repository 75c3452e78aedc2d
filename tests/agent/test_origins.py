"""The line that a person is shown as the maker of an array or a program."""

from __future__ import annotations

import sysconfig
from types import SimpleNamespace

import pytest

from jaxtop_agent.arrays.origins import created, is_library

PACKAGES = sysconfig.get_path("purelib")


def traceback(*frames):
    return SimpleNamespace(
        frames=[
            SimpleNamespace(file_name=file, line_num=line, function_name=function)
            for file, line, function in frames
        ]
    )


def test_it_is_the_innermost_line_of_the_script():
    found = created(
        traceback(
            (f"{PACKAGES}/jax/_src/numpy/array_creation.py", 144, "ones"),
            (f"{PACKAGES}/flax/linen/module.py", 7, "init"),
            ("/home/me/model.py", 57, "init"),
            ("/home/me/train.py", 3, "<module>"),
            (f"{sysconfig.get_path('stdlib')}/runpy.py", 88, "_run_code"),
        )
    )
    assert found == "model.py:57 init"


def test_who_made_it_inside_of_libraries_only_is_unknown():
    assert created(traceback((f"{PACKAGES}/jax/_src/api.py", 1, "f"))) is None
    assert created(None) is None
    assert created(traceback()) is None


@pytest.mark.parametrize(
    ("file", "answer"),
    [
        (f"{PACKAGES}/jax/_src/api.py", True),
        (f"{PACKAGES}/typing_extensions.py", False),
        ("/usr/lib/python3/dist-packages/optax/transform.py", True),
        (f"{sysconfig.get_path('stdlib')}/threading.py", True),
        ("<frozen runpy>", True),
        ("<stdin>", False),
        ("<string>", False),
        ("/home/me/jax/train.py", False),
        (f"{PACKAGES}/mylab/train.py", False),
    ],
)
def test_libraries_are_distinguished_from_what_the_user_wrote(file, answer):
    assert is_library(file) is answer
