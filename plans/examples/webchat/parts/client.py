"""The smallest WebSocket client that can test the chat: blocking, one connection, text only."""

import base64
import os
import socket


class Client:
    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            f"GET /chat HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self.stream = self.socket.makefile("rb")
        self.status = self.stream.readline().decode().strip()
        while self.stream.readline().strip():
            pass

    def say(self, text: str) -> None:
        payload, mask = text.encode(), os.urandom(4)
        head = bytes([0x81]) + (
            bytes([0x80 | len(payload)])
            if len(payload) < 126
            else bytes([0x80 | 126]) + len(payload).to_bytes(2, "big")
        )
        self.socket.sendall(head + mask + bytes(byte ^ mask[n % 4] for n, byte in enumerate(payload)))

    def hear(self) -> str:
        _, size = self.stream.read(2)
        if size == 126:
            size = int.from_bytes(self.stream.read(2), "big")
        return self.stream.read(size).decode()

    def close(self) -> None:
        self.stream.close()
        self.socket.close()
