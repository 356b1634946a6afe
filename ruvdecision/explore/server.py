"""The page's server: the standard library's, bound to this machine, for one reader and their own browser.

It serves three files of its own and the answers of `desk`, and is strict about who asks. A page from elsewhere must not
reach it, so requests whose ``Host`` is not this machine are refused (DNS rebinding), and so are requests that a browser
marks as coming from another site. A link to the page itself may come from anywhere, so that settings can be shared.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import socket
import socketserver
import threading
from collections.abc import Sequence
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ..checks import check_integer
from ..errors import InputError
from .desk import Answer, Desk, message as say
from .lesson import Lesson
from .study import StudyTopic

PORT = 8177
#: Ports to try after the usual one when nobody asked for a certain one.
TRIES = 20
FILES = {
    "": ("index.html", "text/html"),
    "page.css": ("page.css", "text/css"),
    "page.js": ("page.js", "text/javascript"),
}
#: Longest query that is read, in characters.
LONGEST = 8000
#: Most connections at a time.
MOST = 64
HEADERS = {
    # Nothing from elsewhere, nothing inline, and nobody may put the page into a frame.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Server:
    """The page, served until it is closed.

    Parameters
    ----------
    topics : sequence of topics
        The lessons, or one study.
    host : str
        The address to listen at. Only this machine can reach 127.0.0.1; any other address is open to the network.
    port : int, optional
        The port; 0 takes a free one. By default 8177, or the next free one.

    Examples
    --------
    >>> from ruvdecision.explore import LESSONS
    >>> with Server(LESSONS, port=0) as server:
    ...     server.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(self, topics: Sequence[Lesson | StudyTopic], host: str = "127.0.0.1", port: int | None = None) -> None:
        self.desk = Desk(topics)
        self._http = _listen(self.desk, host, port)
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port that it listens at."""
        return int(self._http.server_address[1])

    @property
    def local(self) -> bool:
        """True if only this machine can reach it."""
        return ipaddress.ip_address(str(self._http.server_address[0])).is_loopback

    @property
    def url(self) -> str:
        """The address of the page."""
        host = str(self._http.server_address[0])
        if host in ("0.0.0.0", "::"):
            host = "127.0.0.1"
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def run(self) -> None:
        """Serve until somebody presses Ctrl-C."""
        self._http.serve_forever(poll_interval=0.2)

    def __enter__(self) -> Server:
        """Serve from a thread of its own."""
        self._thread = threading.Thread(target=self.run, daemon=True, name="ruvdecision-page")
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._http.shutdown()
        self.close()
        if self._thread is not None:
            self._thread.join(5)

    def close(self) -> None:
        """Give the port back."""
        self._http.server_close()


class _HTTP(ThreadingHTTPServer):
    """Threads that end with the program, and no name service at the start."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 32
    # A port that was left a moment ago may be taken again; Windows would let two pages share one.
    allow_reuse_address = os.name != "nt"

    def __init__(self, address: tuple[str, int], desk: Desk, family: socket.AddressFamily) -> None:
        self.address_family = family
        self.desk = desk
        self._room = threading.BoundedSemaphore(MOST)
        self._silent: dict[Any, None] = {}  # connections that have not said yet what they want, the oldest first
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # The parent's would look up the machine's name, which may take seconds without a network.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        # A browser opens a handful of connections. One who opens hundreds and says nothing, or a letter a minute,
        # should neither eat up threads nor shut others out: the one that has been silent for longest makes room.
        if not self._room.acquire(blocking=False):
            for oldest in list(self._silent)[:1]:
                self.silent(oldest, False)
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            if not self._room.acquire(timeout=1.0):
                self.shutdown_request(request)
                return
        self.silent(request, True)
        super().process_request(request, client_address)

    def silent(self, request: Any, waiting: bool) -> None:
        """Note that a connection waits to be told something, or has been."""
        self._silent.pop(request, None)
        if waiting:
            self._silent[request] = None

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.silent(request, False)
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away is no news, and nothing else gets here: the desk answers errors."""


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: _HTTP
    protocol_version = "HTTP/1.1"
    server_version = "ruvdecision"
    sys_version = ""
    timeout = 60
    # An answer is small and somebody waits for it.
    disable_nagle_algorithm = True
    wbufsize = -1

    def handle_one_request(self) -> None:
        self.server.silent(self.connection, True)
        super().handle_one_request()

    def do_GET(self) -> None:
        self._answer(post=False)

    def do_HEAD(self) -> None:
        self._answer(post=False)

    def do_POST(self) -> None:
        self._answer(post=True)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep no log: a query holds what somebody tries out."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the standard library refuses (a method, a long line), with our headers and without its words."""
        self.close_connection = True
        self._send(say(f"This request cannot be answered: {HTTPStatus(code).phrase.lower()}.", code))

    def _answer(self, *, post: bool) -> None:
        self.server.silent(self.connection, False)
        if post or self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            # Requests carry all they say in their address. A body is neither wanted nor read, nor taken for the next
            # request.
            self.close_connection = True
        try:
            path = urlsplit(self.path)
            pairs = (
                parse_qsl(path.query, keep_blank_values=True, max_num_fields=60, errors="replace")
                if len(path.query) <= LONGEST
                else None
            )
        except ValueError:
            self._send(say("The address cannot be read.", 400))
            return
        name = path.path.lstrip("/")
        refused = self._refuse(page=name == "" and not post)
        if refused is not None:
            answer = refused
        elif pairs is None:
            answer = say("The address is too long.", 414)
        elif name in FILES and not post:
            answer = Answer(200, f"{FILES[name][1]}; charset=utf-8", _file(name))
        elif len({k for k, _ in pairs}) != len(pairs):
            answer = say("A setting is given twice. Give it once.", 400)
        else:
            answer = self.server.desk.answer(
                name.removeprefix("api/") if name.startswith("api/") else "", dict(pairs), post=post
            )
        self._send(answer)

    def _refuse(self, *, page: bool) -> Answer | None:
        """Why a request is not answered at all; None if it is."""
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or not _is_here(hosts[0], self.server.server_name, self.server.server_port):
            return say("This page answers to its own address only.", 421)
        origin = self.headers.get("Origin")
        if origin is not None and origin != f"http://{hosts[0]}":
            return say("This page does not answer to other sites.", 403)
        site = self.headers.get("Sec-Fetch-Site", "none")
        shared = (
            page
            and self.headers.get("Sec-Fetch-Mode") == "navigate"
            and self.headers.get("Sec-Fetch-Dest") == "document"
        )
        if site not in ("none", "same-origin") and not shared:
            return say("This page does not answer to other sites.", 403)
        return None

    def _send(self, answer: Answer) -> None:
        try:
            self.send_response(answer.status)
            for name, value in HEADERS.items():
                self.send_header(name, value)
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(len(answer.body)))
            if answer.file:
                self.send_header("Content-Disposition", f'attachment; filename="{answer.file}"')
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)
            self.wfile.flush()
        except (BrokenPipeError, ConnectionError):
            self.close_connection = True


def _listen(desk: Desk, host: str, port: int | None) -> _HTTP:
    """Listen at the port, or at the next free one if nobody asked for a certain one."""
    wanted = check_integer("port", port, low=0, high=65535) if port is not None else None
    try:
        family, _, _, _, found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError, ValueError):  # also a name that no machine can have
        raise InputError(
            "host must be an address of this machine", host, "Leave it out to listen at 127.0.0.1"
        ) from None
    address = str(found[0])
    for attempt in [wanted] if wanted is not None else [*range(PORT, PORT + TRIES), 0]:
        try:
            return _HTTP((address, attempt), desk, family)
        except PermissionError:
            raise InputError("This port may not be used", attempt, "Name one above 1023") from None
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                raise InputError(
                    "host must be an address of this machine", host, "Leave it out to listen at 127.0.0.1"
                ) from None
            if error.errno != errno.EADDRINUSE or wanted is not None:
                raise InputError(
                    "The port cannot be had", attempt, "Another program has it; name another --port"
                ) from None
    raise InputError("No free port was found", f"{PORT} to {PORT + TRIES}", "Name one with --port")


def _is_here(host: str, bound: str, port: int) -> bool:
    """True if a Host header names this server.

    A page elsewhere can let its own name point here, but it cannot make the browser send another name than its own. A
    numeric address cannot be rebound, so a server that was opened to the network answers to any.
    """
    name, _, number = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    if not name:
        name, number = host, "80"
    if (number or "80") != str(port):
        return False
    name = name.removeprefix("[").removesuffix("]").lower()
    if name == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or not ipaddress.ip_address(bound).is_loopback


@cache
def _file(name: str) -> bytes:
    return (Path(__file__).parent / "page" / FILES[name][0]).read_bytes()
