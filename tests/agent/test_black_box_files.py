"""The files of a black box: their names, their folder, and what is said where they cannot be written."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

import pytest
from msgspec import structs

from jaxtop.cli.record import default_name
from jaxtop_agent import blackbox
from jaxtop_agent.blackbox import BlackBox
from jaxtop_agent.core import settings
from jaxtop_agent.core.board import Board
from jaxtop_agent.service.identity import identify
from tests import builders, patience
from tests.support import eventually

NAMES = ["train", "a/../b", "x" * 400, "训练" * 100, "a b;c$(d)\n\x00", ""]


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_has_a_file_name_that_every_system_takes_whatever_the_run_is_called(tmp_path, name):
    """In `jaxtop record`, in the app, and in a process that keeps a black box."""
    board = Board(identify(name))
    box = BlackBox(board, tmp_path / "box", 1)
    box.end()
    box.run()
    told = builders.frame(builders.agent_id(0), structs.replace(builders.hello(0), name=name))
    path = tmp_path / default_name(builders.folded([told], told.at))
    path.touch()
    for file in (path, *(tmp_path / "box").iterdir()):
        assert file.suffix == ".mcap"
        assert re.fullmatch(r"[\w.-]{1,200}", file.name, re.ASCII)
    assert board.sources["recording"].startswith("on")
    assert len(list((tmp_path / "box").iterdir())) == len(list(tmp_path.glob("*.mcap"))) == 1


def test_a_black_box_says_at_once_why_it_cannot_be_written(tmp_path, monkeypatch):
    """A disk that does not answer would be noticed only when megabytes wait for it."""
    (tmp_path / "file").touch()
    for folder, why in (
        (tmp_path / "file", "not a directory"),
        ("/proc/nowhere", "no such file"),
        ("a\0b", "null"),
    ):
        board = Board(identify("run"))
        box = BlackBox(board, Path(folder), 1)
        box.run()
        box.take("pulse", 1, b"")
        assert board.sources["recording"].startswith("off: ") and why in board.sources["recording"]
    board, now = Board(identify("run")), [1000.0]
    monkeypatch.setattr(blackbox, "steady", lambda: now[0])
    box = BlackBox(board, tmp_path / "box", 1)
    answers, real = threading.Event(), os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda *given: answers.wait(patience.left()) and real(*given))
    writes = threading.Thread(target=box.run)
    writes.start()

    def said():
        now[0] += 1
        box.take("pulse", 1, b"")
        return board.sources["recording"]

    try:
        told = [said() for _ in range(12)]
        assert told == [f"on: {tmp_path / 'box'}"] * 10 + ["waiting: the disk does not answer"] * 2
        answers.set()
        eventually(lambda: said().startswith("on: "))
    finally:
        answers.set()
        box.end()
        writes.join(patience.left())


@pytest.mark.parametrize("record", ["boxes/a.mcap", Path("boxes/a.mcap"), Path("boxes"), "boxes/"])
def test_a_black_box_is_asked_for_by_a_folder_or_by_a_file_in_it(tmp_path, monkeypatch, record):
    """As words or as a path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JAXTOP_RECORD", raising=False)
    asked = settings.read("run", None, None, None, record).record
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # as the script may
    box = BlackBox(Board(identify("run")), asked, 1)
    box.end()
    box.run()
    [file] = (tmp_path / "boxes").iterdir()
    assert file.name.startswith("a-" if "a.mcap" in str(record) else "run-")


def test_a_path_that_cannot_be_completed_is_no_error_of_the_settings(tmp_path, monkeypatch):
    assert settings.read(None, None, None, None, "~nobody-of-this-name/b").record is not None
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert settings.read(None, None, None, None, "boxes").record == Path("boxes")


def test_words_in_the_environment_ask_for_a_black_box_as_well(monkeypatch):
    monkeypatch.setenv("JAXTOP_RECORD", "boxes")
    assert settings.read(None, None, None).record == Path("boxes").absolute()
    assert settings.read(None, None, None, None, Path("others")).record == Path("others").absolute()
