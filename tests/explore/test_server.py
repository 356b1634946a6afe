"""The page at the door: who does not know the token gets nothing, and nothing is told to anybody else."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import places
import pytest

from ruvdecision import cli

pytest.importorskip("panel", reason="the page needs panel")

import panel as pn

from ruvdecision.explore import open_server
from ruvdecision.explore.page import failed_page
from ruvdecision.explore.server import HEADERS, Server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with open_server(port=0) as opened:
        yield opened


def get(server: Server, path: str) -> tuple[int, dict[str, str], bytes]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/{path}", timeout=30) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read()


def test_it_listens_to_this_machine_only(server: Server) -> None:
    assert server.local and server.url.startswith("http://127.0.0.1:") and len(server.token) >= 24
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing: it only picks the address that faces the network
        own = probe.getsockname()[0]
    if not own.startswith("127."):
        with pytest.raises(OSError, match=r"refused|timed out"):
            socket.create_connection((own, server.port), timeout=5)


@pytest.mark.slow
def test_the_page_has_strict_headers_and_fetches_nothing(server: Server) -> None:
    status, headers, body = get(server, f"{server.token}/")
    assert status == 200 and {k: headers[k] for k in HEADERS} == HEADERS
    assert headers["Cache-Control"] == "no-store" and "Access-Control-Allow-Origin" not in headers
    found = re.findall(rb"""(?:src|href)=["']([^"']+)""", body)
    assert found and not [u for u in found if u.startswith((b"http", b"//"))]
    assert b'lang="en"' in body and b"viewport" in body


@pytest.mark.parametrize(
    "path",
    ["", "favicon.ico", "ws", "static/js/bokeh.min.js", "x/", "{token}x/", "autoload.js", "metadata", "{token}/../../etc/passwd",
     "{token}/..%2f..%2fserver.py", "{token}/static/..%2f..%2f..%2fsetup.py", "liveness"],
)  # fmt: skip
def test_without_the_token_there_is_nothing(server: Server, path: str) -> None:
    status, headers, body = get(server, path.format(token=server.token))
    assert status in (400, 403, 404) and server.token.encode() not in body and b"Traceback" not in body
    assert headers["X-Frame-Options"] == "DENY"


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1.evil.example:80"])
def test_another_site_cannot_open_the_connection(server: Server, origin: str) -> None:
    head = (
        f"GET /{server.token}/ws HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nOrigin: {origin}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as line:
        line.sendall(head.encode())
        assert b" 403 " in line.recv(200)


def test_a_hundred_slow_connections_shut_nobody_out(server: Server) -> None:
    slow = [socket.create_connection(("127.0.0.1", server.port), timeout=20) for _ in range(100)]
    try:
        for line in slow:
            line.sendall(b"GET / HTTP/1.1\r\nHost: ")
        for _ in range(3):
            assert get(server, f"{server.token}/static/js/bokeh.min.js")[0] == 200
    finally:
        for line in slow:
            line.close()


FEW_DESCRIPTORS = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
from ruvdecision.explore import open_server
with open_server(port=0) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="limits of descriptors are a thing of Unix")
@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: ", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"])
def test_more_slow_connections_than_descriptors_shut_nobody_out(said: bytes) -> None:
    child = subprocess.Popen([sys.executable, "-c", FEW_DESCRIPTORS], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    slow: list[socket.socket] = []
    try:
        assert child.stdout is not None
        url = child.stdout.readline().decode().strip()
        port = int(url.split(":")[2].split("/")[0])
        for _ in range(300):
            slow.append(socket.create_connection(("127.0.0.1", port), timeout=20))
            with contextlib.suppress(OSError):
                slow[-1].sendall(said)
        for _ in range(3):
            with urllib.request.urlopen(f"{url}static/js/bokeh.min.js", timeout=10) as answer:
                assert answer.status == 200
    finally:
        for line in slow:
            line.close()
        child.kill()
        child.communicate()


def test_who_is_slow_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ruvdecision.explore.server.SLOWEST", 0.3)
    with open_server(port=0) as hasty:
        for said in (b"GET / HTTP/1.1\r\nHost: ", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1"):
            with socket.create_connection(("127.0.0.1", hasty.port), timeout=60) as line:
                line.sendall(said)
                assert line.recv(100) == b""


@pytest.mark.parametrize("size", ["Content-Length: 2000000", "Transfer-Encoding: chunked"])
def test_a_large_request_is_not_kept(size: str, server: Server) -> None:
    """Who sends more than a page needs gets an error or no answer, and the next request is served."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as line:
        line.sendall(f"POST /x HTTP/1.1\r\nHost: a\r\n{size}\r\n\r\n".encode())
        with contextlib.suppress(OSError):
            line.sendall(b"1E8480\r\n" + bytes(2_000_000) + b"\r\n")
        try:
            answer = line.recv(100)
        except ConnectionResetError:
            answer = b""
        assert answer in (b"", b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert get(server, f"{server.token}/")[0] == 200


@pytest.mark.slow
def test_nothing_is_logged(server: Server, capfd: pytest.CaptureFixture[str], caplog: Any) -> None:
    for path in ("x", f"{server.token}/?n=12", f"{server.token}/nothing"):
        get(server, path)
    assert capfd.readouterr() == ("", "") and server.token not in caplog.text


@pytest.mark.parametrize("address", ["", f"?n={'9' * 5000}"])
def test_a_page_that_fails_does_not_say_what_it_choked_on(
    address: str, server: Server, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Panel prints the text of an error, which may quote a record, and shows it on the page."""
    shown: list[str] = []

    def recorded(error: Exception) -> Any:
        made = failed_page(error)
        shown.append(made.select(pn.pane.HTML)[0].object)
        return made

    def failing(*_: object) -> Any:
        raise ValueError("Zebulon Quixby")

    monkeypatch.setattr("ruvdecision.explore.server.failed_page", recorded)
    if not address:
        monkeypatch.setattr("ruvdecision.explore.server.page_for_visit", failing)
    status, _, body = get(server, f"{server.token}/{address}")
    assert status == 200 and b"Zebulon" not in body and b"Traceback" not in body
    assert len(shown) == 1 and "failed with a ValueError" in shown[0]
    assert capfd.readouterr() == ("", "")


def test_the_command_serves_until_ctrl_c(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    opened: list[str] = []

    def interrupted(self: Server) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Server, "run", interrupted)
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert cli.main(["explore", "--port", "0", "--no-browser"]) == 0
    said = capsys.readouterr().out
    assert re.fullmatch(r"The page is at http://127\.0\.0\.1:\d+/[\w-]+/ \(Ctrl-C ends it\)\n", said) and not opened
    assert cli.main(["explore", "--port", "0"]) == 0
    assert opened == [re.findall(r"http://\S+", capsys.readouterr().out)[0]]
    assert cli.main(["explore", "--port", "0", "--no-browser", "--host", "0.0.0.0"]) == 0
    assert "Everybody on the network" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [["no_such_study.py"], ["--set", "n=3"], ["--port", "70000"], ["--port", "x"], ["--host", "256.1.1.1"]]
)
def test_the_command_says_what_is_wrong(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explore", "--no-browser", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_port_that_is_taken_is_said(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explore", "--no-browser", "--port", str(server.port)]) == 2
    assert f"port {server.port}" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent as a signal")
def test_ctrl_c_ends_the_page(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ruvdecision", "explore", "--no-browser", "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(places.ROOT)}
    hear = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background job would not
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, preexec_fn=hear
    )
    assert process.stdout is not None
    url = re.findall(r"http://\S+", process.stdout.readline())[0]
    with urllib.request.urlopen(url, timeout=30) as reply:
        assert reply.status == 200
    process.send_signal(signal.SIGINT)
    with contextlib.closing(process.stdout):
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "", "")
