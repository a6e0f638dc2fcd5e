"""A web server on loopback that can be as unhelpful as real ones."""

import contextlib
import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

CONTENT = np.random.default_rng(0).bytes(3_000_000)
SHA256 = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


class Site:
    """What is served, how, and what was asked for."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.etag: str | None = '"one"'
        self.modified: str | None = None
        self.ranges = True
        self.status = 200
        self.cuts: list[int] = []  # the connection is cut after so many bytes, once each
        self.extra_length = 0  # how much longer than it is the file says that it is
        self.chunked = False
        self.wrong_range = False
        self.location: str | None = None
        self.asked: list[str | None] = []  # the Range of each request
        self.url = ""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site: Site

    def log_message(self, format, *args):
        del format, args

    def do_GET(self):  # noqa: N802, the name that http.server calls
        site = self.site
        site.asked.append(self.headers["Range"])
        self.close_connection = True
        if site.location or site.status != 200:
            self.send_response(302 if site.location else site.status)
            self.send_header("Location", site.location or "")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        start = self.start()
        if start >= len(site.content) > 0:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(site.content)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = site.content[start:]
        self.send_response(206 if start else 200)
        if start:
            first = start + site.wrong_range
            last = len(site.content) - 1
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(site.content)}")
        for name, value in (("ETag", site.etag), ("Last-Modified", site.modified)):
            if value is not None:
                self.send_header(name, value)
        if site.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(body) + site.extra_length))
        self.end_headers()
        if site.cuts:
            body = body[: site.cuts.pop(0)]
        self.wfile.write(b"%x\r\n%b\r\n" % (len(body), body) if site.chunked else body)
        if site.chunked and len(body) == len(site.content) - start:
            self.wfile.write(b"0\r\n\r\n")

    def start(self) -> int:
        asked, version = self.headers["Range"], self.headers["If-Range"]
        same = version in (self.site.etag, self.site.modified)
        if not (asked and self.site.ranges and same):
            return 0
        return int(asked.removeprefix("bytes=").removesuffix("-"))


class Server(ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """Clients that have heard enough hang up."""
        del request, client_address


@contextlib.contextmanager
def serving(content: bytes) -> Iterator[Site]:
    site = Site(content)
    server = Server(("127.0.0.1", 0), type("Bound", (Handler,), {"site": site}))
    site.url = f"http://127.0.0.1:{server.server_port}/file.bin"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
