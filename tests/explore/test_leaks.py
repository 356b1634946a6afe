"""The page at the door: raw sockets say what no browser would, and no answer tells of a record or of us."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import places
import pytest
from edges import tried
from sentinels import SECRETS, WHO, leaks

from ruvdecision import cli
from ruvdecision.explore import Server, open_server
from ruvdecision.explore.server import HEADERS, MOST

STUDY = f'''"""Wages, with records that must not get out."""

import numpy as np
import ruvdecision as ruv

DATA = np.array({list(SECRETS)})


def users(level=4000.0, wrong=False):
    belief = ruv.NormalBelief(records=5, variance=1e8, prior_mean=6e4, prior_variance=1e8)
    return ruv.User(belief, ruv.Record(0), ruv.Absolute()), ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic())


def study(level=4000.0, wrong=False):
    """What noise does."""
    if wrong:
        float("{WHO}")
    intruder, scientist = users()
    return ruv.evaluate([ruv.Noise(sd=level), ruv.Noise(sd=2 * level)], intruder=intruder, scientist=scientist, data=DATA, seed=1)


def notes(result):
    return ["nothing to add"]
'''


@pytest.fixture(scope="module")
def study_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "wages.py"
    path.write_text(STUDY, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def server(study_file: Path) -> Iterator[Server]:
    with open_server(study_file, port=0) as opened:
        topic = opened.desk.topics["study"]
        topic.begin()  # type: ignore[union-attr]
        job = topic.runner.job(topic.settings({}))  # type: ignore[union-attr]
        if job is not None:
            assert job.ended.wait(60)
        yield opened


def talk(server: Server, raw: bytes, wait: float = 20.0) -> bytes:
    """Send bytes as they are and read until the server hangs up."""
    tried("leaks")
    with socket.create_connection(("127.0.0.1", server.port), timeout=wait) as line:
        line.sendall(raw)
        line.shutdown(socket.SHUT_WR)
        answer = b""
        while True:
            try:
                part = line.recv(65536)
            except ConnectionResetError:  # it hung up on a body that it had not read
                break
            if not part:
                break
            answer += part
    return answer


def get(
    server: Server, path: str, *headers: str, method: str = "GET", host: str | None = None
) -> tuple[int, dict[str, str], bytes]:
    lines = [
        f"{method} {path} HTTP/1.1",
        f"Host: {host or f'127.0.0.1:{server.port}'}",
        "Connection: close",
        *headers,
        "",
        "",
    ]
    answer = talk(server, "\r\n".join(lines).encode("latin-1"))
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    return int(first.split()[1]), dict(line.split(": ", 1) for line in rest), body


def decent(answer: bytes) -> None:
    """No record, no traceback, no name of a file of ours, no version of Python."""
    assert leaks(answer) == []
    for word in (b"Traceback", b'File "', b'.py", line', b"Python/", b"site-packages"):
        assert word not in answer


@pytest.mark.parametrize(
    "wanted",
    ["", "page.js", "page.css", "api/page", "api/scene", "api/map.csv", "api/map.png", "api/map.py", "api/report.html"],
)
def test_answers_hold_no_record(server: Server, wanted: str) -> None:
    status, headers, body = get(server, f"/{wanted}")
    assert status == 200
    decent(body if wanted != "api/map.py" else body.replace(b".py", b""))
    assert {k: headers[k] for k in HEADERS} == HEADERS
    assert "Access-Control-Allow-Origin" not in headers and "Set-Cookie" not in headers
    assert "Python" not in headers.get("Server", "")


def test_a_study_that_fails_tells_its_kind_only(server: Server) -> None:
    topic = server.desk.topics["study"]
    get(server, "/api/compute?wrong=yes", method="POST")
    job = topic.runner.job(topic.settings({"wrong": True, "level": 4000.0}))  # type: ignore[union-attr]
    if job is not None:
        job.ended.wait(60)
    status, _, body = get(server, "/api/scene?wrong=yes")
    assert status == 400 and b"ValueError" in body
    decent(body)


@pytest.mark.parametrize(
    "wrong",
    ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", "", "[::1"],
)
@pytest.mark.parametrize("path", ["/", "/api/scene", "/api/report.html"])
def test_another_host_gets_nothing(server: Server, wrong: str, path: str) -> None:
    status, _, body = get(server, path, host=wrong.format(port=server.port) or " ")
    assert status == 421 and set(json.loads(body)) == {"message"}
    decent(body)


@pytest.mark.parametrize(
    "raw",
    [
        b"GET /api/scene HTTP/1.1\r\n\r\n",  # no Host
        b"GET /api/scene\r\n\r\n",  # HTTP/0.9
        b"GET /api/scene HTTP/1.0\r\n\r\n",
        b"GET /api/scene HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nHost: evil.example\r\n\r\n",
        b"GET http://evil.example/api/scene HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    ],
)
def test_no_host_or_two_get_nothing(server: Server, raw: bytes) -> None:
    answer = talk(server, raw.replace(b"%d", str(server.port).encode()))
    assert b"answers to its own address only" in answer
    decent(answer)


@pytest.mark.parametrize("path", ["/api/compute", "/api/stop", "/api/scene"])
@pytest.mark.parametrize(
    "headers",
    [
        ["Origin: http://evil.example"],
        ["Origin: null"],
        ["Origin: https://127.0.0.1"],
        ["Sec-Fetch-Site: cross-site"],
        ["Sec-Fetch-Site: same-site"],
        ["Origin: http://evil.example", "Content-Type: text/plain", "Content-Length: 2"],
    ],
)
def test_a_post_from_another_site_does_nothing(server: Server, path: str, headers: list[str]) -> None:
    status, _, body = get(server, path, *headers, method="POST")
    assert status == 403
    decent(body)


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/page.js/../server.py",
        "/server.py",
        "/api/../server.py",
        "/api/%2e%2e/desk.py",
        "//etc/passwd",
        "/./page.js",
        "/page.js%00",
        "\\..\\server.py",
        "/wages.py",
    ],
)
def test_no_other_file_is_served(server: Server, path: str) -> None:
    status, _, body = get(server, path)
    assert status in (400, 404)
    assert b"import" not in body and b"root:" not in body
    decent(body)


ODD: dict[str, bytes] = {
    "no request": b"",
    "no words": b"\r\n\r\n",
    "noise": bytes(range(256)) * 4,
    "one word": b"GET\r\n\r\n",
    "four words": b"GET / HTTP/1.1 more\r\n\r\n",
    "another protocol": b"GET / FTP/9.9\r\nHost: %h\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
    "a long line": b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: %h\r\n\r\n",
    "a long header": b"GET / HTTP/1.1\r\nHost: %h\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\nHost: %h\r\n" + b"X: 1\r\n" * 200 + b"\r\n",
    "a bad escape": b"GET /api/scene?level=%zz%ff HTTP/1.1\r\nHost: %h\r\nConnection: close\r\n\r\n",
    "a null": b"GET /api/scene?level=\x00 HTTP/1.1\r\nHost: %h\r\nConnection: close\r\n\r\n",
    "markup": b"GET /api/scene?topic=<script>alert(1)</script> HTTP/1.1\r\nHost: %h\r\nConnection: close\r\n\r\n",
    "a new line in a value": b"GET /api/scene?topic=a%0d%0aSet-Cookie:%20x=1 HTTP/1.1\r\nHost: %h\r\nConnection: close\r\n\r\n",
    "malformed JSON": b'POST /api/compute HTTP/1.1\r\nHost: %h\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"level":',
    "a length that is none": b"POST /api/compute HTTP/1.1\r\nHost: %h\r\nContent-Length: lots\r\n\r\n",
    "a body in pieces": b"POST /api/compute HTTP/1.1\r\nHost: %h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nlevel\r\n0\r\n\r\n",
    "a method of its own": b"BREW / HTTP/1.1\r\nHost: %h\r\n\r\n",
    "PUT": b"PUT /api/scene HTTP/1.1\r\nHost: %h\r\n\r\n",
    "OPTIONS": b"OPTIONS /api/scene HTTP/1.1\r\nHost: %h\r\nOrigin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n\r\n",
    "TRACE": b"TRACE / HTTP/1.1\r\nHost: %h\r\n\r\n",
    "CONNECT": b"CONNECT evil.example:80 HTTP/1.1\r\nHost: %h\r\n\r\n",
    "an upgrade": b"GET /api/scene HTTP/1.1\r\nHost: %h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nOrigin: http://evil.example\r\n\r\n",
}


@pytest.mark.parametrize("name", ODD)
def test_odd_requests(server: Server, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    answer = talk(server, ODD[name].replace(b"%h", f"127.0.0.1:{server.port}".encode()))
    decent(answer)
    assert b"\r\nSet-Cookie" not in answer and b"Access-Control" not in answer
    # What is thrown back is JSON, which no browser takes for a page.
    assert b"<script>" not in answer or (b"Content-Type: application/json" in answer and b"nosniff" in answer)
    if answer.startswith(b"HTTP/1.1"):
        assert b"Content-Security-Policy: default-src 'none'" in answer
        assert answer.split()[1] in (
            b"200",
            b"202",
            b"400",
            b"403",
            b"404",
            b"405",
            b"414",
            b"421",
            b"431",
            b"501",
            b"505",
        )
    # Nothing is logged, and the next reader is served.
    assert capfd.readouterr() == ("", "")
    assert get(server, "/page.js")[0] == 200


def test_a_body_is_not_taken_for_a_request(server: Server) -> None:
    inner = f"POST /api/stop HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n"
    for kind in (f"Content-Length: {len(inner)}", "Transfer-Encoding: chunked"):
        outer = f"GET /page.js HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n{kind}\r\n\r\n{inner}"
        answer = talk(server, outer.encode())
        assert answer.count(b"HTTP/1.1 ") == 1 and b"stopped" not in answer


def test_a_huge_body_is_not_read(server: Server) -> None:
    tried("leaks")
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as line:
        head = f"POST /api/compute HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: {10**15}\r\n\r\n"
        line.sendall(head.encode())
        assert line.recv(100).startswith(b"HTTP/1.1 202")  # without waiting for a petabyte


def test_silent_clients_keep_nobody_waiting(server: Server) -> None:
    silent = [socket.create_connection(("127.0.0.1", server.port), timeout=20) for _ in range(20)]
    try:
        for line in silent:
            line.sendall(b"GET / HT")
        found: list[int] = []
        readers = [threading.Thread(target=lambda: found.append(get(server, "/api/page")[0])) for _ in range(5)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(30)
        assert found == [200] * 5
    finally:
        for line in silent:
            line.close()


def test_there_are_never_more_than_so_many_connections(server: Server) -> None:
    before = threading.active_count()
    crowd: list[socket.socket] = []
    try:
        for _ in range(MOST + 40):
            crowd.append(socket.create_connection(("127.0.0.1", server.port), timeout=20))
            crowd[-1].sendall(b"GET / HT")
        assert threading.active_count() <= before + MOST
    finally:
        for line in crowd:
            line.close()


def test_only_this_machine_is_served_by_default(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert server.local and server.url.startswith("http://127.0.0.1:")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing: it only picks the address that faces the network
        own = probe.getsockname()[0]
    if not own.startswith("127."):
        with pytest.raises(OSError, match=r"refused|timed out"):
            socket.create_connection((own, server.port), timeout=5)
    monkeypatch.setattr(Server, "run", lambda self: None)
    assert cli.main(["explore", "--host", "0.0.0.0", "--port", "0", "--no-browser"]) == 0
    assert "Everybody on the network can reach it" in capsys.readouterr().out


def test_the_page_has_nothing_from_elsewhere() -> None:
    folder = places.ROOT / "ruvdecision" / "explore" / "page"
    for file in folder.iterdir():
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/", "")
        assert "http:" not in text and "https:" not in text and "//cdn" not in text, file.name
        assert "eval(" not in text and "document.write" not in text, file.name


def test_debug_of_the_page_tells_no_record(study_file: Path, capfd: pytest.CaptureFixture[Any]) -> None:
    with open_server(study_file, port=0, debug=True) as opened:
        topic = opened.desk.topics["study"]
        job = topic.runner.start(topic.settings({"wrong": True}))  # type: ignore[union-attr]
        assert job.ended.wait(60)
    said = capfd.readouterr()
    assert "ValueError (its text is left out" in said.err and "wages.py" in said.err
    assert leaks((said.out + said.err).replace(f'float("{WHO}")', "")) == []  # the line of code itself is the author's
