"""Stands between one client and an API server, and answers late, never or with 429 when told."""

import asyncio
import json
import ssl
import threading

CHUNK = 1 << 16  # bytes
LOOK_S = 0.05  # between two looks whether to go on
BUSY = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 429,
                   "reason": "TooManyRequests", "message": "the server is busy"}).encode()


def contexts(authority, server, client):
    """TLS for clients and TLS to the server. `server`, `client`: (certificate, key)."""
    accepts = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    accepts.load_cert_chain(*server)
    connects = ssl.create_default_context(cafile=authority)
    connects.load_cert_chain(*client)
    return accepts, connects


class Relay(threading.Thread):
    """Ends TLS at `listener`, and passes everything on to 127.0.0.1:`port` with TLS of its own.

    `mode`, which any thread may set:
        passes  both directions pass
        busy    a request is answered with 429; answers that have begun go on, such as watches
        silent  nothing passes, nor is answered; what came meanwhile passes afterwards, unless its
                client has hung up
    """

    def __init__(self, listener, port, tls):
        super().__init__(daemon=True)
        self.listener, self.port, self.tls = listener, port, tls
        self.mode, self.pause_s = "passes", 1  # pause_s: for Retry-After
        self.refused = self.changes = 0  # requests so far: answered 429, and passed on to write
        self.loop = asyncio.new_event_loop()
        self.start()

    def run(self):
        asyncio.set_event_loop(self.loop)
        self.loop.set_exception_handler(lambda *_: None)  # connections that fail in a handshake
        self.loop.create_task(asyncio.start_server(self.serve, sock=self.listener,
                                                   ssl=self.tls[0]))
        self.loop.run_forever()

    def stop(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.join(10)
        self.listener.close()

    async def serve(self, reader, writer):
        try:
            server, to_server = await asyncio.open_connection("127.0.0.1", self.port,
                                                              ssl=self.tls[1])
        except OSError:
            writer.transport.abort()
            return
        ways = [asyncio.ensure_future(self.requests(reader, to_server, writer)),
                asyncio.ensure_future(self.answers(server, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)  # their errors are hang-ups
            for end in (writer, to_server):
                end.close()

    async def silence(self):
        while self.mode == "silent":
            await asyncio.sleep(LOOK_S)

    async def requests(self, reader, to_server, writer):
        while data := await reader.read(CHUNK):
            await self.silence()
            if reader.at_eof():
                return
            if self.mode == "busy":
                self.refused += 1
                writer.write((f"HTTP/1.1 429 Too Many Requests\r\nRetry-After: {self.pause_s}\r\n"
                              f"Content-Type: application/json\r\nConnection: close\r\n"
                              f"Content-Length: {len(BUSY)}\r\n\r\n").encode() + BUSY)
                await writer.drain()
                return
            self.changes += data.startswith((b"POST ", b"PATCH ", b"DELETE "))
            to_server.write(data)
            await to_server.drain()

    async def answers(self, server, writer):
        while data := await server.read(CHUNK):
            await self.silence()
            writer.write(data)
            await writer.drain()
