"""The check of JAX's private names: which are read, and what it finds in wheels that are made up here."""

from __future__ import annotations

import zipfile

import pytest

from jaxtop.base.tested_versions import HIGHEST_JAX
from tests.jaxnames import index
from tests.jaxnames.__main__ import main
from tests.jaxnames.index import of_each_minor
from tests.jaxnames.names import ANYWHERE, Path, Use
from tests.jaxnames.reading import PRIVATE
from tests.jaxnames.report import Report
from tests.jaxnames.sources import Sources
from tests.jaxnames.uses import readers, uses

JAX = {
    "jax/__init__.py": "from jax._src import api as api\n",
    "jax/_src/__init__.py": "",
    "jax/_src/api.py": """
import threading
import jaxlib._jax as _jax
from jax._src.state import *

class Base:
    __slots__ = ("slot",)

class Holder(Base):
    client: _jax.Client | None = None

    def __init__(self):
        self.lock = threading.Lock()

    @property
    def inner(self) -> "Holder":
        return self

    def method(self, first, *, named=None):
        while first:
            work = first

if threading:
    holder = Holder()

def launch(function, arguments, backend=None): ...
class Generic[T](Base): ...
""",
    "jax/_src/state.py": "starred: int = 0\n",
    "jaxlib/__init__.py": "",
    "jaxlib/_jax.so": b"\0Client\0\0live_arrays\0memref.get_it\0def by_signature(self)\0overwrite\0",
}


@pytest.fixture
def wheel(tmp_path):
    """A version of JAX that is made up."""
    found = tmp_path / "jax-9.0-py3-none-any.whl"
    with zipfile.ZipFile(found, "w") as archive:
        for name, content in JAX.items():
            archive.writestr(name, content)
    return found


@pytest.fixture
def report(tmp_path, wheel):
    """What is found there of the look-ups in a text."""

    def report(code):
        file = tmp_path / "agent.py"
        file.write_text(code)
        found = Report(uses([file]))
        assert found.uses
        found.add("9.0", Sources(wheel))
        return found

    return report


@pytest.mark.parametrize(
    "code",
    [
        "imported('jax._src.api').holder.client.live_arrays()",
        "api = imported('jax._src.api')\nfind(api, 'gone', 'holder').inner.inner.lock",
        "def f(api=imported('jax._src.api')): ...\nfind(imported('jax._src.api').holder, 'slot')",
        "imported('jax._src.api').launch(f, 1, backend=2)",
        "imported('jax._src.api').holder.method(1, named=2)",
        "imported('jax._src.api').starred",
        "imported('jax._src.api').Generic",
        "imported('jax._src.api').holder.lock.locked()",
        "imported('jaxlib._jax').Client.by_signature",
        "imported('jax._src.api').holder.client.live_arrays(1, overwrite=True)",
        "import_module('jax').api.holder",
        "class A:\n def g(self): self.x.lock\n def __init__(self): self.x = imported('jax._src.api').holder",
        "[each.live_arrays() for each in imported('jax._src.api').holder.client]",
    ],
)
def test_what_a_version_has_is_found(report, code):
    assert not report(code).lacks


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("imported('jax._src.gone')", "jax._src.gone"),
        ("imported('jax._src.api').gone.more", "jax._src.api.gone"),
        ("find(imported('jax._src.api'), 'gone', 'away')", "jax._src.api.gone|away"),
        ("imported('jax._src.api').holder.gone", "jax._src.api.holder.gone"),
        ("state = imported('jax._src.api').holder\nstate.inner.gone = 1", "jax._src.api.holder.inner.gone"),
        ("imported('jax._src.api').launch(f, 1, device=2)", "jax._src.api.launch(device)"),
        ("imported('jax._src.api').launch(f)", "jax._src.api.launch(without arguments)"),
        ("imported('jax._src.api').launch(f, 1, 2, 3)", "jax._src.api.launch(4 arguments)"),
        ("imported('jax._src.api').holder.client.get_it()", "jax._src.api.holder.client.get_it"),
        (
            "client = imported('jaxlib._jax').Client\nclient.live_arrays(gone=1)",
            "jaxlib._jax.Client.live_arrays(gone)",
        ),
    ],
)
def test_what_a_version_lacks_needs_a_statement(report, code, name):
    (lack,) = report(code).unstated
    assert lack.name == name and lack.versions == ["9.0"] and "nothing is stated" in lack.words


@pytest.mark.parametrize(
    ("code", "without"),
    [
        ("getattr(imported('jax._src.api'), 'gone', None)", "it is taken as None"),
        (
            "# Without it: no launches\n# are counted.\nimported('jax._src.api').gone",
            "no launches are counted.",
        ),
        ("find(imported('jax._src.api'), 'gone')  # Without it: none.", "none."),
        ("sys.modules.get('jax._src.gone')", "it goes on without the module"),
    ],
)
def test_a_substitute_is_stated_where_the_name_is_read(report, code, without):
    found = report(code)
    assert not found.unstated
    assert [lack.without for lack in found.lacks.values()] == [without]


def test_the_names_that_the_agent_reads_are_found_in_its_code():
    words = {use.path.words for use in uses()}
    assert {
        "jax._src.xla_bridge._backends",
        "jax._src.api._post_hook_state.set_global",
        "jax._src.distributed.global_state.client.key_value_set",
        "jax._src.config.debug_nans._update_thread_local_hook",
        "jax._src.profiler._profile_state.session|profile_session",
        "jax._src.pjit._cpp_pjit.cache_miss().jit_info",
        "jaxlib._jax.Client.live_executables",
        "jaxlib._jax.LoadedExecutable.hlo_modules",
        "jaxlib._jax.HloPrintOptions.print_metadata",
        "jax.*.jax/_src/distributed.py",
        "jax.*.pxla.py",
        "jax.*./jax/core/compile/backend_compile_duration",
    } <= words
    (put,) = (use for use in uses() if use.path.words.endswith("key_value_set") and use.arguments)
    assert put.arguments == (2, ("allow_overwrite",))


def test_each_look_up_of_a_name_needs_its_own_statement(report):
    found = report("api = imported('jax._src.api')\nif getattr(api, 'gone', None): ...\napi.gone(1)")
    assert [lack.places for lack in found.unstated] == [["agent.py:3"]]
    assert len(found.lacks) == 2


def test_files_of_jax_are_looked_up_as_well(wheel):
    found = Report([Use(Path(ANYWHERE, ((each,),)), "") for each in ("api.py", "jax/_src/state.py", "pi.py")])
    found.add("9.0", Sources(wheel))
    assert [lack.name for lack in found.lacks.values()] == ["jax.*.pi.py"]


def test_what_has_the_names_that_are_looked_up_has_a_type():
    untyped = [each for reader in readers(sorted(PRIVATE.glob("*.py"))) for each in reader.untyped]
    assert untyped == ["getattr(aval, 'size', 0)"]


@pytest.mark.parametrize(("minor", "is_newer"), [(HIGHEST_JAX[1], False), (HIGHEST_JAX[1] + 1, True)])
def test_a_minor_version_that_was_never_tested_fails_the_check(minor, is_newer, wheel, monkeypatch, capsys):
    monkeypatch.setattr(index, "offered", lambda: ["0.8.0", f"{HIGHEST_JAX[0]}.{minor}.1"])
    monkeypatch.setattr(index, "wheels", lambda _version: [wheel])
    assert main([]) == 1  # most names are not in these wheels
    printed = capsys.readouterr()
    assert ("raise HIGHEST_JAX" in printed.err) == is_newer
    assert "not stated what the agent does without it: jax._src.config" in printed.err
    assert "JAX 0.8.0: of " in printed.out


def test_the_last_of_each_minor_version_is_checked_and_the_lowest():
    versions = ["0.7.2", "0.8.0", "0.8.1", "0.8.3", "0.9.0", "0.9.0.1", "0.12.0", "0.12.0.1"]
    assert of_each_minor(versions, (0, 8, 0)) == ["0.8.0", "0.8.3", "0.9.0.1", "0.12.0.1"]
