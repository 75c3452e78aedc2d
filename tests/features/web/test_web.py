"""`--web`: who is admitted, what a tab gets, how sessions end, and what is said when it cannot serve."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import ssl
from contextlib import asynccontextmanager

import aiohttp
import psutil
import pytest

from jaxtop.cli import main
from jaxtop.cli.serving.listening import Protection
from jaxtop.features.web.browser import admission, server, tab
from jaxtop.features.web.browser.server import BrowserServer
from jaxtop.features.web.browser.tab import MAX_SIZE, packet_of
from tests.features.metrics.test_exporter_http import certificate  # noqa: F401 - a fixture
from tests.features.web.chromium import until
from tests.made.sessions import Made
from tests.played.recordings import record
from tests.support import JAXTOP, PYTHON, eventually, is_one_line, modules_after, processes, run

OPEN = Protection()


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = tmp_path_factory.mktemp("web") / "a.mcap"
    record(path, Made(hosts=2, devices=2, seconds=10))
    return path


@asynccontextmanager
async def served(*words: object, protection: Protection = OPEN):
    """Serve a command in this process."""
    made = BrowserServer([str(word) for word in words], "127.0.0.1", 0, protection)
    serving = asyncio.create_task(made.serve())
    try:
        yield made
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


def browser() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))


def place_of(made: BrowserServer) -> str:
    return made.url.partition("?")[0].rstrip("/")


async def admitted(client: aiohttp.ClientSession, made: BrowserServer) -> str:
    """Open the printed address; return that of the page."""
    async with client.get(made.url) as answer:
        assert answer.status == 200
        return str(answer.url)


def opened(client: aiohttp.ClientSession, made: BrowserServer, page: str, **more: object):
    headers = {"Origin": place_of(made)}
    return client.ws_connect(f"{page}ws?width=100&height=30", headers=headers, **more)


async def connected(port: int, says: bytes = b""):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(says)
    return reader, writer


async def shown(websocket, words: str, seen: str = "") -> str:
    """Read what the app draws until it contains these words."""
    while words not in (text := re.sub(r"\x1b\[[\d;?]*[ -/]*[@-~]", "", seen)):
        message = await websocket.receive()
        assert message.type is aiohttp.WSMsgType.BINARY, (message, text)
        seen += message.data.decode()
    return text


async def closed(websocket) -> None:
    """Read until the other side has gone."""
    ends = (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)
    while (await websocket.receive()).type not in ends:
        pass


def apps() -> list[psutil.Process]:
    """The processes of the tabs."""
    found = psutil.Process().children()
    return [each for each in found if each.status() != psutil.STATUS_ZOMBIE and "jaxtop" in each.cmdline()]


class TestAdmission:
    def test_the_address_works_once_and_the_next_one_is_printed(self, capfd):
        async def act():
            async with served("attach") as made, browser() as client:
                first = made.url
                async with client.get(first, allow_redirects=False) as answer:
                    (cookie,) = answer.cookies.values()
                    assert answer.status == 303 and "token" not in answer.headers["Location"]
                assert cookie["httponly"] and cookie["samesite"] == "Lax" and len(cookie["path"]) > 20
                assert cookie["path"] == answer.headers["Location"]
                async with client.get(place_of(made) + cookie["path"]) as answer:
                    assert answer.status == 200 and "jaxtop attach" in await answer.text()
                async with browser() as other:
                    async with other.get(first) as answer:
                        assert answer.status == 403
                    await admitted(other, made)
                    await admitted(other, made)
                    async with other.get(made.url[:-1]) as answer:
                        assert answer.status == 403
                return first, made.url

        first, last = asyncio.run(act())
        printed = re.findall(r"http://\S+", capfd.readouterr().err)
        assert (printed[0], printed[-1], len(set(printed))) == (first, last, 4)

    @pytest.mark.parametrize("token", ["", "wrong", "%C3%A9%ED%A0%80", "x" * 4000, "a&token=b"])
    def test_a_wrong_token_gets_nothing(self, token):
        async def act():
            async with served("attach") as made, browser() as client:
                before = made.url
                async with client.get(f"{place_of(made)}/?token={token}") as answer:
                    assert answer.status == 403 and "jaxtop" in await answer.text()
                    assert not answer.cookies
                async with client.head(made.url) as answer:
                    assert answer.status == 403
                assert made.url == before, "an address that was not opened still works"

        asyncio.run(act())

    def test_without_the_cookie_there_is_no_page_no_script_and_no_websocket(self):
        async def act():
            async with served("attach") as made, browser() as client, browser() as stranger:
                page = await admitted(client, made)
                for name in ("", "page.js", "static/js/textual.js", "static/css/xterm.css"):
                    async with client.get(page + name) as answer:
                        assert answer.status == 200
                        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
                    async with stranger.get(page + name) as answer:
                        assert answer.status == 403
                for url in (page + "static/../page.html", page + "server.py", f"{page}/etc/passwd"):
                    async with client.get(url) as answer:
                        assert answer.status == 404
                with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                    await opened(stranger, made, page)
                assert refused.value.status == 403
                cookie = {"Cookie": "jaxtop=wrong"}
                async with stranger.get(page, headers=cookie) as answer:
                    assert answer.status == 403
                assert not apps()

        asyncio.run(act())

    def test_other_names_and_other_pages_are_refused(self):
        """A stranger's page may let its own name lead to this machine, and open websockets to any address."""

        async def act():
            async with served("attach") as made, browser() as client:
                page = await admitted(client, made)
                for host, status in (
                    ("localhost:9000", 200),
                    ("[::1]:1", 200),
                    ("evil.example", 403),
                    ("127.0.0.1.evil.example:8410", 403),
                    ("[", 403),
                    ("", 403),
                ):
                    async with client.get(page, headers={"Host": host}) as answer:
                        assert answer.status == status, host
                for origin in ("http://evil.example", "null", "", "http://127.0.0.1:1", "http://["):
                    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                        await client.ws_connect(f"{page}ws", headers={"Origin": origin} if origin else {})
                    assert refused.value.status == 403
                async with client.get(f"{page}ws", headers={"Origin": place_of(made)}) as answer:
                    assert answer.status == 400
                assert not apps()

        asyncio.run(act())

    def test_strangers_do_not_keep_the_user_out(self, monkeypatch, capfd):
        monkeypatch.setattr(admission, "MAX_STRANGERS", 3)
        monkeypatch.setattr(admission, "REQUEST_S", 0.5)

        async def act():
            async with served("attach") as made, browser() as client:
                page = await admitted(client, made)
                port = int(place_of(made).rpartition(":")[2])
                silent = [await connected(port) for _ in range(10)]
                for reader, _ in silent[:7]:
                    assert await reader.read() == b""
                async with client.get(page) as answer:
                    assert answer.status == 200
                slow, noisy = (
                    await connected(port, b"GET / HTTP/1.1\r\nX: "),
                    await connected(port, b"\x16\r\n\r\n"),
                )
                for reader, _ in (*silent[7:], slow):
                    assert await reader.read() == b""
                await noisy[0].read()
                for _, writer in (*silent, slow, noisy):
                    writer.close()

        asyncio.run(act())
        assert "Traceback" not in capfd.readouterr().err

    def test_with_tls_the_address_and_the_cookie_are_for_tls_only(self, certificate):  # noqa: F811 - a fixture
        trusting = ssl.create_default_context(cafile=str(certificate[0]))

        async def act():
            protection = Protection(*certificate)
            async with served("attach", protection=protection) as made, browser() as client:
                assert made.url.startswith("https://")
                async with client.get(made.url, allow_redirects=False, ssl=trusting) as answer:
                    assert answer.status == 303 and answer.cookies["jaxtop"]["secure"]

        asyncio.run(act())


class TestTabs:
    def test_a_tab_shows_the_app_takes_keys_and_sizes_and_ends_with_it(self, recording):
        async def act():
            async with served("replay", recording) as made, browser() as client:
                page = await admitted(client, made)
                async with opened(client, made, page) as websocket:
                    await shown(websocket, "Quit")
                    await websocket.send_json(["stdin", "?"])
                    await shown(websocket, "figure past its threshold")
                    await websocket.send_json(["resize", {"width": 30, "height": 8}])
                    await websocket.send_json(["stdin", "\x1b"])
                    await shown(websocket, "40×10")
                    for nonsense in ("[", "[1]", '["stdin", 1]', '["resize", {}]', "[" * 9999, "null"):
                        await websocket.send_str(nonsense)
                    await websocket.send_bytes(b"\xff")
                    await websocket.send_json(["resize", {"width": 10**12, "height": -1}])
                    await websocket.send_json(["stdin", "q"])
                    await closed(websocket)
                await until(lambda: not apps())

        asyncio.run(act())

    def test_a_closed_tab_ends_its_app_and_frees_its_place(self, recording, monkeypatch):
        monkeypatch.setattr(server, "MAX_TABS", 1)

        async def act():
            async with served("replay", recording) as made, browser() as client:
                page = await admitted(client, made)
                async with opened(client, made, page) as first:
                    await shown(first, "Quit")
                    async with opened(client, made, page) as second:
                        await shown(second, "no more than 1 tabs")
                        await closed(second)
                    assert len(apps()) == 1
                await until(lambda: not apps() and not made._tabs)
                async with opened(client, made, page) as third:
                    await shown(third, "Quit")
            assert not apps(), "the server ends what is left"

        asyncio.run(act())

    def test_an_app_that_does_not_leave_is_killed(self, recording, monkeypatch):
        monkeypatch.setattr(tab, "LEAVES_WITHIN", 0.1)
        monkeypatch.setattr(tab, "ENDS_WITHIN", 0.1)

        async def act():
            async with served("replay", recording) as made, browser() as client:
                page = await admitted(client, made)
                async with opened(client, made, page) as websocket:
                    await shown(websocket, "Quit")
                    (child,) = apps()
                    child.send_signal(signal.SIGSTOP)
                await until(lambda: not apps())

        asyncio.run(act())

    def test_why_an_app_cannot_start_is_shown_in_its_tab(self, tmp_path):
        async def act():
            words = ("replay", tmp_path / "no; touch $(hacked) `x` \x1b[31m")
            async with served(*words) as made, browser() as client:
                page = await admitted(client, made)
                async with client.get(page) as answer:
                    assert "<b>" not in await answer.text()
                async with opened(client, made, page) as websocket:
                    text = await shown(websocket, r"\x1b[31m")
                assert "jaxtop: " in text and "no; touch $(hacked)" in text

        asyncio.run(act())
        assert not list(tmp_path.iterdir())

    def test_what_a_browser_sends_is_bounded(self):
        assert packet_of('["stdin", "é"]') == b"D\x00\x00\x00\x02\xc3\xa9"
        large = packet_of('["resize", {"width": 99999, "height": "1000"}]')
        assert b'"width": %d, "height": %d' % MAX_SIZE in large
        assert b'"width": 1,' in packet_of('["resize", {"width": 0, "height": "²"}]')
        assert packet_of('["quit"]') is packet_of("{}") is packet_of(b"x") is None

    def test_the_title_is_text(self):
        async def act():
            async with served("attach", "<b>&") as made, browser() as client, client.get(made.url) as answer:
                assert "<title>jaxtop attach &lt;b&gt;&amp;</title>" in await answer.text()

        asyncio.run(act())


def started(process) -> str:
    """The address that the command prints."""
    line = process.stderr.readline()
    return re.search(r"jaxtop: open (http://\S+)", line)[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_when_the_command_ends_so_do_its_tabs(recording, number):
    words = [*JAXTOP, "replay", recording, "--web", "--listen", "127.0.0.1:0"]
    with processes(words, stderr=-1) as (process,):
        url = started(process)

        async def act():
            async with browser() as client, client.get(url) as answer:
                origin = url.partition("/?")[0]
                async with client.ws_connect(f"{answer.url}ws", headers={"Origin": origin}) as websocket:
                    await shown(websocket, "Quit")
                    own = psutil.Process(process.pid).children()
                    process.send_signal(number)
                    await closed(websocket)
                    return own

        (app,) = asyncio.run(act())
        eventually(lambda: not app.is_running() or app.status() == psutil.STATUS_ZOMBIE)
        assert process.wait() == (0 if number != signal.SIGKILL else -signal.SIGKILL)
        assert "Traceback" not in process.stderr.read()


def test_what_it_cannot_do_it_says_in_one_line(recording, tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        busy = f"127.0.0.1:{taken.getsockname()[1]}"
        for words, said in (
            (("replay", recording, "--listen", ":0"), "--listen needs --web"),
            (("attach", "--tls-key", "x"), "--tls-key needs --web"),
            (("replay", recording, "--web", "--at", "+1s"), "give only one"),
            (("replay", recording, "--web", "--export", "csv"), "give only one"),
            (("replay", recording, "--web", "--listen", busy), "cannot listen on"),
            (("replay", recording, "--web", "--listen", "0.0.0.0:0"), "--tls-cert and --tls-key"),
            (("replay", recording, "--web", "--listen", ":x"), "is not a port"),
            (("replay", recording, "--web", "--tls-cert", recording), "is no certificate"),
            (("replay", tmp_path / "none", "--web"), "none"),
            (("attach", "no-such-run", "--web"), "no-such-run"),
            (("attach", "--web"), "jaxtop run"),
            (("attach", "ssh://-x", "--web"), "ssh://"),
        ):
            assert main([str(word) for word in words]) == 2
            out, err = capsys.readouterr()
            assert out == "" and said in err and is_one_line(err), (words, err)


@pytest.mark.parametrize("missing", ["aiohttp", "textual_serve"])
def test_without_the_extra_it_says_what_to_install(recording, missing):
    code = f"import sys; sys.modules[{missing!r}] = None; from jaxtop.cli import main; sys.exit(main())"
    done = run(PYTHON, "-c", code, "replay", recording, "--web")
    assert done.returncode == 2 and "pip install 'jaxtop[web]'" in done.stderr and is_one_line(done.stderr)


def test_only_web_imports_the_server():
    asks = "from jaxtop.cli import attach, replay"
    assert modules_after(asks).isdisjoint(("aiohttp", "textual_serve", "textual"))
