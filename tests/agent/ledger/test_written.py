"""How many bytes a process has written: real TensorStore, to files and to a store that speaks S3."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from jaxtop_agent.ledger.written_bytes import written_bytes
from tests.support import PYTHON, run, script

WRITER = """
    import json, sys, threading
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    import tensorstore
    from jaxtop_agent.ledger.written_bytes import written_bytes

    class Store(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self):
            self.answer(("x-amz-bucket-region", "us-east-1"))

        def do_PUT(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.answer(("ETag", '"1"'))

        def answer(self, *headers):
            self.send_response(200)
            for name, value in (*headers, ("Content-Length", "0")):
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *words):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Store)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    s3 = dict(
        driver="s3", bucket="bucket1", path="a/", endpoint=f"http://127.0.0.1:{server.server_port}",
        aws_region="us-east-1", aws_credentials={"type": "anonymous"},
    )
    found = []
    for spec in (s3, dict(driver="file", path=sys.argv[1] + "/")):
        before = written_bytes()
        tensorstore.KvStore.open(spec).result().write("x", b"z" * 3_000_000).result()
        found.append(written_bytes() - before)
    print(json.dumps(found))
"""


def test_what_goes_to_an_object_store_counts_as_what_goes_to_files(tmp_path):
    pytest.importorskip("tensorstore", reason="comes with Orbax: `pip install jaxtop[dev]`")
    done = run(PYTHON, script(tmp_path, WRITER), tmp_path)
    assert done.returncode == 0, done.stderr
    to_store, to_files = json.loads(done.stdout)
    assert 3_000_000 <= to_store < 3_100_000 and 3_000_000 <= to_files < 3_100_000


def fails(_prefix):
    raise RuntimeError("another version")


@pytest.mark.parametrize(
    "collect", [None, fails, lambda _prefix: [{"values": [{"mean": 1.0}]}], lambda _prefix: 7], ids=str
)
def test_another_version_of_tensorstore_is_no_harm(monkeypatch, collect):
    monkeypatch.setitem(
        sys.modules, "tensorstore", SimpleNamespace(experimental_collect_matching_metrics=collect)
    )
    assert written_bytes() is not None
