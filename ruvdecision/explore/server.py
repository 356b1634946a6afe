"""The page's server: Panel's, bound to this machine, with a token in every address.

Whoever does not know the token, on this machine or through a page from elsewhere, gets nothing. The pages load nothing
from elsewhere, which the browser is told to hold them to; nothing is logged, and slow connections wait beside others.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import secrets
import socket
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import panel as pn
from bokeh.server.server import Server as BokehServer
from panel.io.server import get_server
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPHeaders
from tornado.ioloop import IOLoop
from tornado.iostream import IOStream
from tornado.web import OutputTransform

from ..checks import check_integer
from ..errors import InputError, safe_traceback
from .page import failed_page, page_for_visit
from .topic import Topic

PORT = 8177
#: Ports to try after the usual one when nobody asked for a certain one.
TRIES = 20
#: The largest file that the page takes, in bytes as they are sent.
LARGEST = 400_000_000
#: The largest request, in bytes: a page asks for addresses, and files come over its connection.
REQUEST = 2**20
#: Seconds that a request may take to arrive; who is slower is cut off.
SLOWEST = 30.0
#: Connections that may ask for something at a time, and the share of the system's descriptors that they may hold.
MOST, SHARE = 400, 0.4
HEADERS = {
    # Panel runs inline scripts of its own; nothing is fetched from elsewhere, and nobody may put the page into a frame.
    "Content-Security-Policy": "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src "
    "'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Server": "ruvdecision",
}


class Headers(OutputTransform):
    """Adds the headers to whatever is answered."""

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        for name, value in HEADERS.items():
            headers[name] = value
        if "html" in headers.get("Content-Type", ""):
            headers["Cache-Control"] = "no-store"
        return status_code, headers, chunk


class Waiting:
    """The connections that ask for something: where there are too many, the oldest makes room for the next.

    A program has only so many descriptors, and without one it cannot accept whoever comes. An open page does not count:
    its connection is no longer one that asks.
    """

    def __init__(self, server: HTTPServer) -> None:
        self.server, self.take_over = server, server.handle_stream
        self.streams: list[IOStream] = []
        self.most = most_connections()

    def admit(self, stream: IOStream, address: tuple[object, ...]) -> None:
        """Take a new connection in."""
        asking = {id(one.stream) for one in self.server._connections}
        self.streams = [one for one in self.streams if id(one) in asking and not one.closed()]
        while len(self.streams) >= self.most:
            self.streams.pop(0).close()
        self.streams.append(stream)
        self.take_over(stream, address)


def most_connections() -> int:
    """As many as leave most of the program's descriptors to its pages and files."""
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        return MOST
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST if most == resource.RLIM_INFINITY else max(min(MOST, int(SHARE * most)), 8)


class Server:
    """The page, served until it is closed: ``with`` serves it from a thread, `run` from here.

    Parameters
    ----------
    topics : sequence of topics
        The lessons, or one study.
    host : str
        The address to listen at. Only this machine can reach 127.0.0.1; any other address is open to the network.
    port : int, optional
        The port; 0 takes a free one. By default 8177, or the next free one.
    debug : bool
        Write tracebacks of what fails to standard error.
    """

    def __init__(
        self, topics: Sequence[Topic], host: str = "127.0.0.1", port: int | None = None, debug: bool = False
    ) -> None:
        for name in ("asyncio", "bokeh", "panel", "tornado.access", "tornado.application", "tornado.general"):
            # What they would log are addresses, with the token, and errors, which may quote a record.
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        self.topics, self.debug, self.token = tuple(topics), debug, secrets.token_urlsafe(18)
        self.host, self.local = host, _is_here(host)
        self._thread: threading.Thread | None = None
        self._loop = IOLoop(make_current=False)
        # In a thread of its own: Bokeh and Tornado take the loop that runs here, in a notebook, for the server's.
        with ThreadPoolExecutor(1) as alone:
            self._server = alone.submit(self._listen_on_port, host, port).result()
        self.port = int(self._server.port)

    @property
    def url(self) -> str:
        """Where the page is, with its token."""
        shown = "127.0.0.1" if self.host in ("", "0.0.0.0", "::") else self.host
        return f"http://{f'[{shown}]' if ':' in shown else shown}:{self.port}/{self.token}/"

    def run(self) -> None:
        """Serve until `close` or Ctrl-C."""
        self._loop.start()

    def close(self) -> None:
        """End it."""
        if self._thread is not None:
            self._loop.add_callback(self._loop.stop)
            self._thread.join(10)
        self._server.unlisten()
        self._server.stop()

    def __enter__(self) -> Server:
        self._thread = threading.Thread(target=self.run, daemon=True, name="ruvdecision-page")
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _page_for_visit(self) -> pn.Template:
        """The page for one visit."""
        sent = {k: v[0].decode("utf-8", "replace")[:400] for k, v in (pn.state.session_args or {}).items() if v}
        try:
            return page_for_visit(self.topics, sent, self.debug)[0]
        except Exception as error:
            if self.debug:
                sys.stderr.write(safe_traceback(error))
            return failed_page(error)

    def _listen_on_port(self, host: str, port: int | None) -> BokehServer:
        if port is not None:
            port = check_integer("port", port, low=0, high=65535)
        tries = range(PORT, PORT + TRIES) if port is None else [port]
        asyncio.set_event_loop(self._loop.asyncio_loop)  # type: ignore[attr-defined]
        for wanted in tries:
            try:
                # The origin that may open a connection has a port in it, so that it must be known beforehand.
                number = _free_port(host, wanted)
                made = get_server(
                    {"/": self._page_for_visit}, port=number, address=host, loop=self._loop, show=False, start=False,
                    verbose=False,
                    websocket_origin=[f"{name}:{number}" for name in {host, "127.0.0.1", "localhost"} if name],
                    title="ruvdecision", prefix=self.token, websocket_max_message_size=LARGEST,
                    session_token_expiration=86_400, ico_path="none",
                    http_server_kwargs={
                        "max_body_size": REQUEST, "body_timeout": SLOWEST, "idle_connection_timeout": SLOWEST
                    },
                )  # fmt: skip
            except (OSError, UnicodeError, ValueError, TypeError) as error:
                last = error
            else:
                made._tornado.transforms.append(Headers)
                made._http.handle_stream = Waiting(made._http).admit
                made.start()
                return made
        where = f"port {port}" if port else f"port {PORT} to {PORT + TRIES - 1}" if port is None else "a free port"
        do = "Try another --port or --host"
        raise InputError(f"The page cannot listen at {host!r}, {where}", type(last).__name__, do) from None


def _free_port(host: str, wanted: int) -> int:
    """The port, or a free one for 0; an error if somebody listens there already."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, wanted))
        return int(probe.getsockname()[1])


def _is_here(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
