import asyncio
import random
import shutil
import socket
import ssl
import subprocess
import threading
from contextlib import suppress
from itertools import pairwise

import pytest
import virtual_time
from hypothesis import given, settings
from hypothesis import strategies as st
from model_server import ModelServer

from rewardharness.models.base import ChatRequest, Message
from rewardharness.models.openai_compatible import OpenAICompatibleModel
from rewardharness.models.transport import HttpClient, HttpReply, NotHttpError, ServerAddress, _Connection

HEAD = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Wire(asyncio.Transport):
    """The other end of a connection, without a network."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.closed = False

    def write(self, data):
        self.sent += data

    def abort(self):
        self.closed = True

    def is_closing(self):
        return self.closed


def receive(reply: bytes, cuts=(), closes=True) -> tuple[HttpReply, bool]:
    """Give a connection a reply in pieces cut at these places; return what it reads and whether it stays open."""

    async def main():
        connection, wire = _Connection(100_000, set()), Wire()
        connection.connection_made(wire)
        task = asyncio.create_task(connection.exchange(HEAD, (b"ab", b"cd")))
        await asyncio.sleep(0)
        assert wire.sent == HEAD + b"abcd"
        places = [0, *sorted(cut for cut in cuts if cut < len(reply)), len(reply)]
        for start, end in pairwise(places):
            if start < end and not wire.closed:
                connection.data_received(reply[start:end])
        reusable = connection.reusable
        if closes or wire.closed:
            connection.connection_lost(None)
        return await task, reusable

    return virtual_time.run(main())


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunked(body: bytes, sizes, extension=b"", trailer=b"") -> bytes:
    out, rest = [], body
    for size in sizes:
        part, rest = rest[:size], rest[size:]
        if part:
            out.append(b"%x%s\r\n%s\r\n" % (len(part), extension, part))
    if rest:
        out.append(b"%X\r\n%s\r\n" % (len(rest), rest))
    return CHUNKED + b"".join(out) + b"0\r\n" + trailer + b"\r\n"


# ---- what a reply may look like


@settings(deadline=None, max_examples=40)
@given(st.binary(max_size=300), st.lists(st.integers(0, 400), max_size=5))
def test_a_body_of_known_length_in_any_pieces(body, cuts):
    reply, _ = receive(b"HTTP/1.1 201 Created\r\nX-A: 1\r\ncontent-length:  %d \r\n\r\n%s" % (len(body), body), cuts)
    assert (reply.status, reply.body, reply.headers[b"x-a"]) == (201, body, b"1")


@settings(deadline=None, max_examples=40)
@given(
    st.binary(max_size=300),
    st.lists(st.integers(1, 99), max_size=5),
    st.lists(st.integers(0, 600), max_size=5),
    st.sampled_from([b"", b";a=b"]),
    st.sampled_from([b"", b"X-T: 1\r\n"]),
)
def test_a_body_in_chunks_in_any_pieces(body, sizes, cuts, extension, trailer):
    reply, reusable = receive(chunked(body, sizes, extension, trailer), cuts)
    assert reply.body == body and reusable


@settings(deadline=None, max_examples=30)
@given(st.binary(max_size=300), st.lists(st.integers(0, 400), max_size=5))
def test_a_body_that_ends_with_the_connection(body, cuts):
    reply, reusable = receive(b"HTTP/1.0 200 OK\r\n\r\n" + body, cuts)
    assert reply.body == body and not reusable


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx and more",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\nx\r\n0\r\n\r\nmore",
    ],
)
def test_odd_but_readable(reply):
    assert receive(reply)[0].body == b"x"


def test_no_content():
    reply, reusable = receive(b"HTTP/1.1 204 No Content\r\n\r\n", closes=False)
    assert reply.body == b"" and reusable


HEADS = [b"no colon\r\n", b"X: " + b"x" * 70_000, b"Transfer-Encoding: gzip, chunked\r\n", b"\r\n" + bytes(100_001)]
HEADS += [b"Content-Length: %s\r\n" % length for length in (b"-1", b"0x5", b"100001")]
CHUNKS = [b"xyz\r\n", b"-1\r\n", b"2\r\nabcd\r\n", b"186a1\r\n", b"1" * 70_000, b"0\r\n" + b"x" * 70_000]


@pytest.mark.parametrize(
    "reply",
    [
        *(
            line + b"\r\n\r\n"
            for line in (b"SSH-2.0-OpenSSH_9.2p1", b"HTTP/2 200 OK", b"HTTP/1.1 OK", b"HTTP/1.1 999 OK")
        ),
        *(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n" for head in HEADS),
        *(CHUNKED + chunk for chunk in CHUNKS),
    ],
    ids=lambda reply: str(reply[:60]),
)
def test_what_is_not_http_or_too_large(reply):
    with pytest.raises(NotHttpError):
        receive(reply)


PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc"


@pytest.mark.parametrize("reply", [b"", PLAIN[:12], PLAIN, CHUNKED + b"5\r\nabc", CHUNKED + b"1\r\na\r\n"])
def test_a_reply_that_is_torn(reply):
    with pytest.raises(ConnectionResetError):
        receive(reply)


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=200), st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n", CHUNKED]))
def test_any_bytes_are_a_reply_or_an_error(data, start):
    with suppress(NotHttpError, ConnectionResetError):
        assert isinstance(receive(start + data)[0], HttpReply)


# ---- connections


@pytest.mark.parametrize(
    ("reply", "reusable"),
    [
        (OK, True),
        (OK.replace(b"OK", b"OK\r\nConnection: keep-alive"), True),
        (OK.replace(b"OK", b"OK\r\nConnection: close"), False),
        (OK.replace(b"HTTP/1.1", b"HTTP/1.0"), False),
        (OK + b"unasked", False),
        (CHUNKED + b"2\r\nok\r\n0\r\n\r\n", True),
        (CHUNKED + b"2\r\nok\r\n0\r\n\r\nunasked", False),
    ],
)
def test_whether_a_connection_is_used_again(reply, reusable):
    assert receive(reply)[0].body == b"ok" and receive(reply)[1] is reusable


def ask_twice(server, between) -> None:
    async def main():
        client = HttpClient(1000)
        origin = ServerAddress("127.0.0.1", server.port, False)
        for _ in range(2):
            assert (await client.exchange(origin, b"GET /health HTTP/1.1\r\n\r\n", ())).status == 200
            await asyncio.to_thread(between)
        await client.close()
        assert not client._open

    asyncio.run(main())


@pytest.mark.parametrize(("idle", "restarts", "connections"), [(4.0, False, 1), (4.0, True, 2), (-1.0, False, 2)])
def test_a_connection_is_kept_unless_it_was_closed_or_idle_for_long(monkeypatch, idle, restarts, connections):
    def restart():
        if restarts:
            server.refuse()
            server.listen()

    monkeypatch.setattr("rewardharness.models.transport._IDLE", idle)
    with ModelServer() as server:
        ask_twice(server, restart)
        assert server.connections == connections


async def test_a_connection_that_speaks_unasked_is_closed():
    connection, wire = _Connection(1000, set()), Wire()
    connection.connection_made(wire)
    connection.data_received(OK)
    assert wire.closed and not connection.reusable


class Listener:
    """A server that takes one connection and does with it what it is told, in a thread."""

    def __init__(self, talk) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.origin = ServerAddress("127.0.0.1", self._listening.getsockname()[1], False)
        self._thread = threading.Thread(target=self._serve, args=(talk,))

    def _serve(self, talk) -> None:
        connection, _ = self._listening.accept()
        with connection:
            talk(connection)

    def __enter__(self) -> "Listener":
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._thread.join(100)
        self._listening.close()


def megabytes(number, seen):
    for _ in range(number):
        seen.append(1 << 20)
        yield bytes(1 << 20)


def test_a_reply_before_everything_was_said():
    """A server that refuses a large body, and neither reads it nor closes."""

    def talk(connection):
        connection.recv(100)
        connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
        finished.wait(100)

    async def main():
        client, sent = HttpClient(1000), []
        async with asyncio.timeout(100):
            reply = await client.exchange(listener.origin, b"POST / HTTP/1.1\r\n\r\n", megabytes(1000, sent))
        assert (reply.status, reply.body) == (413, b"no") and len(sent) < 100 and not client._idle
        await client.close()
        finished.set()

    finished = threading.Event()
    with Listener(talk) as listener:
        asyncio.run(main())


def test_a_server_that_reads_slowly_is_waited_for():
    """A body must not pile up in memory when the server is slow to read."""

    def talk(connection):
        reading.wait(100)
        missing = 50 << 20
        while missing:
            missing -= len(connection.recv(1 << 20))
        connection.sendall(OK)

    async def main():
        client, sent = HttpClient(1000), []
        task = asyncio.create_task(client.exchange(listener.origin, b"", megabytes(50, sent)))
        for _ in range(1000):  # as long as it can go on without the server
            await asyncio.sleep(0)
        assert 0 < len(sent) < 20
        reading.set()
        assert (await task).body == b"ok" and len(sent) == 50
        await client.close()

    reading = threading.Event()
    with Listener(talk) as listener:
        asyncio.run(main())


@pytest.mark.parametrize("size", [0, 50])
def test_cancellation_closes_the_connection(size):
    async def main():
        client = HttpClient(1000)
        task = asyncio.create_task(client.exchange(listener.origin, HEAD, megabytes(size, [])))
        await asyncio.to_thread(arrived.wait, 100)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        await client.close()
        assert not client._open
        finished.set()

    def talk(connection):
        connection.recv(10)
        arrived.set()
        finished.wait(100)

    arrived, finished = threading.Event(), threading.Event()
    with Listener(talk) as listener:
        asyncio.run(main())


# ---- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for this machine, signed by itself."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run([*command.split(), *names], cwd=folder, check=True, capture_output=True)
    return folder


class TlsProxy:
    """Speaks TLS and passes everything on to a server without."""

    def __init__(self, target: int, folder) -> None:
        self._target, self._folder, self.port = target, folder, 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self):
        self._thread.start()
        self.port = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(100)
        return self

    def __exit__(self, *_):
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(100)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self):
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._folder / "cert.pem", self._folder / "key.pem")
        self._tasks = set()
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", 0, ssl=context)
        return self._server.sockets[0].getsockname()[1]

    async def _talk(self, reader, writer):
        self._tasks.add(asyncio.current_task())
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._target)

        async def copy(source, sink):
            try:
                while data := await source.read(1 << 16):
                    sink.write(data)
                    await sink.drain()
            except OSError:
                pass
            finally:
                sink.transport.abort()

        await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))

    async def _stop(self):
        self._server.close()
        await asyncio.wait(self._tasks, timeout=100) if self._tasks else None


def test_tls(certificate, monkeypatch):
    large = random.Random(2).randbytes(1 << 20).hex()

    async def main(url):
        model = OpenAICompatibleModel("vllm", "judge", [url])
        replies = [await model.ask(ChatRequest((Message.of("user", text),))) for text in ("hello", large)]
        await model.close()
        return replies

    with ModelServer(lambda call: str(len(call.text))) as plain, TlsProxy(plain.port, certificate) as proxy:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))
        replies = asyncio.run(main(f"https://127.0.0.1:{proxy.port}/v1"))
    assert [reply.text for reply in replies] == ["5", str(len(large))] and plain.connections == 1


def test_a_certificate_that_nobody_vouches_for(certificate):
    async def main(port):
        client = HttpClient(1000)
        with pytest.raises(ssl.SSLCertVerificationError):
            await client.exchange(ServerAddress("127.0.0.1", port, True), HEAD, (b"abcd",))
        await client.close()

    with ModelServer() as plain, TlsProxy(plain.port, certificate) as proxy:
        asyncio.run(main(proxy.port))
        assert plain.requests == 0
