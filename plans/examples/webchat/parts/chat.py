"""A web chat in one file: serves the page at `/` and a WebSocket (RFC 6455) at `/chat`. Needs only Python.

Every text message is sent on to everybody, the sender included. Usage: python3 chat.py [PORT [PAGE]]
"""

import asyncio
import base64
import hashlib
import sys
from pathlib import Path

MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # Fixed by RFC 6455, section 1.3.
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
MESSAGE_BYTES_MAX = 64 * 1024


def accept_key(key: bytes) -> bytes:
    """What the server answers to a client's Sec-WebSocket-Key."""
    return base64.b64encode(hashlib.sha1(key + MAGIC).digest())


def frame(opcode: int, payload: bytes) -> bytes:
    """One unmasked frame, as servers send them."""
    size = len(payload)
    if size < 126:
        head = bytes([size])
    elif size < 1 << 16:
        head = bytes([126]) + size.to_bytes(2, "big")
    else:
        head = bytes([127]) + size.to_bytes(8, "big")
    return bytes([0x80 | opcode]) + head + payload


async def read_frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The next frame, unmasked. Raises ValueError when it is too large."""
    first, second = await reader.readexactly(2)
    size = second & 0x7F
    if size == 126:
        size = int.from_bytes(await reader.readexactly(2), "big")
    elif size == 127:
        size = int.from_bytes(await reader.readexactly(8), "big")
    if size > MESSAGE_BYTES_MAX:
        raise ValueError("message too large")
    mask = await reader.readexactly(4) if second & 0x80 else b"\0\0\0\0"
    payload = await reader.readexactly(size)
    return first & 0x0F, bytes(byte ^ mask[n % 4] for n, byte in enumerate(payload))


class Room:
    """Everybody who is connected."""

    def __init__(self, page: bytes) -> None:
        self.page = page
        self.members: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            line, *fields = request.decode("latin-1").split("\r\n")
            headers = {name.strip().lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)}
            if line.startswith("GET /chat ") and "sec-websocket-key" in headers:
                await self.chat(reader, writer, headers["sec-websocket-key"])
            else:
                self.answer(writer, line)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            pass  # The other side left or spoke nonsense; the others go on.
        finally:
            self.members.discard(writer)
            writer.close()

    def answer(self, writer: asyncio.StreamWriter, line: str) -> None:
        found = line.startswith("GET / ")
        body = self.page if found else b"not here"
        status = "200 OK" if found else "404 Not Found"
        head = f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)

    async def chat(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str) -> None:
        answer = accept_key(key.encode()).decode()
        writer.write(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {answer}\r\n\r\n".encode()
        )
        self.members.add(writer)
        while True:
            opcode, payload = await read_frame(reader)
            if opcode == CLOSE:
                writer.write(frame(CLOSE, payload[:2]))
                return
            if opcode == PING:
                writer.write(frame(PONG, payload))
            elif opcode == TEXT:
                for member in self.members:
                    member.write(frame(TEXT, payload))


async def main(port: int, page: Path) -> None:
    room = Room(page.read_bytes() if page.exists() else b"<p>no page yet</p>")
    server = await asyncio.start_server(room.serve, "127.0.0.1", port)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    try:
        asyncio.run(main(int((sys.argv[1:] or ["8080"])[0]), Path((sys.argv[2:] or ["../frontend/index.html"])[0])))
    except KeyboardInterrupt:
        pass
