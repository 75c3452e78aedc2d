"""What tests share: every test has a home of its own, so that nothing of the user's is met or changed."""

from __future__ import annotations

import gc
import os
import signal
import time

import pytest
import pytest_timeout

from jaxtop.base.hostnames import VARIABLES
from jaxtop.base.processes import JOBS
from tests import patience
from tests.real import leftovers

# Whoever is started in the background of a shell ignores Ctrl+C, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Taken away once, because fixtures of modules begin before those of a test.
for _name in (
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    "XDG_CONFIG_HOME",
    "JAXTOP",
    "JAXTOP_KEY",
    "JAXTOP_KEY_FILE",
    *VARIABLES,
    *JOBS,
):
    os.environ.pop(_name, None)

# With its handlers of forks, gRPC may abort a child that a later test of the same process starts.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

# Without this, a fifth of the CPU time goes into searching the tests themselves for garbage.
gc.set_threshold(20_000)


def pytest_collection_modifyitems(config, items):
    """Leave out what only `make soak` runs.

    Tests of real JAX processes come first: they mostly wait, and fillers (side_by_side.py) use the time.
    """
    from tests.support import SOAK  # some modules do not need it, and the import takes a while

    if not SOAK:
        left_out = [item for item in items if item.get_closest_marker("thorough")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]
    items.sort(key=lambda item: item.get_closest_marker("jax") is None)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect tests, which last as long as the process, without a search for garbage among them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item, settings):
    """Give each test longer where the machine is busy: see patience.py."""
    deadline = patience.begin_test(settings.timeout)

    def look(*_):
        __tracebackhide__ = True
        if (left := deadline.left()) > 0:
            signal.setitimer(signal.ITIMER_REAL, left)
        else:
            pytest_timeout.timeout_sigalrm(item, settings)

    def cancel():
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    item.cancel_timeout = cancel
    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout)
    return True


_BEGAN = pytest.StashKey[int]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    leftovers.adopt_orphans()
    item.stash[_BEGAN] = leftovers.now()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    item.stash[_BEGAN] = (
        leftovers.now()
    )  # what fixtures of the module have started lasts longer than the test


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    if call.excinfo:
        item.config.hook.pytest_timeout_cancel_timer(item=item)  # the report says why it failed
    report = yield
    if report.failed and _BEGAN in item.stash:
        left = leftovers.end_since(item.stash[_BEGAN])
        if left:
            report.sections.append(("Processes that were left running, and ended", "\n".join(left)))
    return report


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A fresh home: own key, own run files."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def in_utc(monkeypatch):
    """Local times are those of UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A run of two processes with two devices each, which trains until the tests of the module are done."""
    from tests.support import training  # few modules need it, and the import takes a while

    with training(tmp_path_factory.mktemp("pair"), hosts=2, devices=2) as started:
        yield started
