"""Chat servers: right ones in different shapes, and wrong ones, each wrong in one way."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import anyio
from aiohttp import WSMsgType, web

from tests.controllers.task.served import serving

Socket = web.WebSocketResponse
Chats = Callable[[], AbstractAsyncContextManager[str]]


@dataclass(slots=True)
class Chat:
    """A server whose `take` is called with each message and who sent it; `members` are those who are here."""

    members: list[Socket] = field(default_factory=list)
    history: list[str] = field(default_factory=list)
    names: dict[Socket, str] = field(default_factory=dict)

    async def serve(self, request: web.Request) -> Socket:
        socket = Socket()
        await socket.prepare(request)
        self.members.append(socket)
        await self.join(socket)
        try:
            async for message in socket:
                if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                    await self.take(socket, message.data)
        finally:
            self.members.remove(socket)
            await self.part(socket)
        return socket

    async def everybody(self, text: str) -> None:
        for member in list(self.members):
            await member.send_str(text)

    async def end(self) -> None:
        """Closes all connections: a check learns that a frame was wrong without waiting for time to pass."""
        for member in list(self.members):
            await member.close()

    async def join(self, who: Socket) -> None:
        """Nothing."""

    async def part(self, who: Socket) -> None:
        """Nothing."""

    async def take(self, who: Socket, text: str) -> None:
        await self.everybody(text)


def at(path: str, chat: Callable[[], Chat]) -> Chats:
    return lambda: serving(("GET", path, chat().serve))


class Bytes(Chat):
    """To all others, in binary frames and with a greeting."""

    async def join(self, who: Socket) -> None:
        await who.send_str("welcome")

    async def take(self, who: Socket, text: str) -> None:
        for member in self.members:
            if member is not who:
                await member.send_bytes(text.encode())


class Message(Chat):
    """JSON with `message`, sent on inside a larger document; any other frame ends all connections."""

    async def take(self, who: Socket, text: str) -> None:
        try:
            said = json.loads(text)["message"]
        except (ValueError, KeyError, TypeError):
            await self.end()
            return
        await self.everybody(json.dumps({"kind": "said", "by": {"id": id(who)}, "parts": [{"body": said}]}))


class Typed(Chat):
    """JSON with `type` and `text`; any other frame gets an error and ends all. Later members get what was said."""

    async def join(self, who: Socket) -> None:
        for text in self.history:
            await who.send_str(text)

    async def take(self, who: Socket, text: str) -> None:
        try:
            said = json.loads(text)
        except ValueError:
            said = None
        if not isinstance(said, dict) or said.get("type") != "message" or "text" not in said:
            await who.send_json({"type": "error"})
            await self.end()
            return
        self.history.append(json.dumps({"type": "message", "text": said["text"]}))
        await self.everybody(self.history[-1])


class Named(Chat):
    """Takes no message of who has not said a name."""

    async def take(self, who: Socket, text: str) -> None:
        said = json.loads(text)
        if said["type"] == "join":
            self.names[who] = said["name"]
        elif who in self.names:
            await self.everybody(f"{self.names[who]}: {said['text']}")


def at_page(text: str, path: str, chat: Callable[[], Chat]) -> AbstractAsyncContextManager[str]:
    """A chat with a page."""

    async def page(request: web.Request) -> web.Response:
        return web.Response(text=f"<!doctype html><meta charset=utf-8>{text}", content_type="text/html")

    return serving(("GET", "/", page), ("GET", path, chat().serve))


SIMPLE_PAGE = """<form id=f><input placeholder="Type a message"><button>Send</button></form><div id=log></div><script>
const s = new WebSocket(`ws://${location.host}/live?room=1`);
s.onmessage = e => log.append(e.data);
f.onsubmit = e => { e.preventDefault(); s.send(JSON.stringify({message: f.querySelector('input').value})) };
</script>"""
NAMED_PAGE = """<form id=j><label>Your name <input id=n></label><button>Join</button></form>
<form id=f hidden><input id=m placeholder="say something"><button>Post</button></form><div id=log></div><script>
let s;
j.onsubmit = e => {
  e.preventDefault();
  s = new WebSocket(`ws://${location.host}/live`);
  s.onmessage = e => log.append(e.data);
  s.onopen = () => s.send(JSON.stringify({type: 'join', name: n.value}));
  j.hidden = true; f.hidden = false;
};
f.onsubmit = e => { e.preventDefault(); s.send(JSON.stringify({type: 'say', text: m.value})) };
</script>"""

RIGHT: dict[str, Chats] = {
    "plain text": at("/ws", Chat),
    "binary, elsewhere": at("/chat", Bytes),
    "JSON with a message": at("/socket", Message),
    "JSON with a type, and a memory": at("/", Typed),
}


class Constant(Chat):
    async def take(self, who: Socket, text: str) -> None:
        await self.everybody("hello")


class Echo(Chat):
    async def take(self, who: Socket, text: str) -> None:
        await who.send_str(text)


class Late(Chat):
    """Everybody is sent the message before."""

    async def take(self, who: Socket, text: str) -> None:
        self.history.append(text)
        await self.everybody(self.history[-2] if len(self.history) > 1 else "none yet")


class Memory(Chat):
    """Only later clients get the message."""

    async def join(self, who: Socket) -> None:
        for text in self.history:
            await who.send_str(text)

    async def take(self, who: Socket, text: str) -> None:
        self.history.append(text)


class Fragile(Chat):
    """When one goes, all go."""

    async def part(self, who: Socket) -> None:
        await self.end()


class Twice(Chat):
    async def take(self, who: Socket, text: str) -> None:
        await self.everybody(text)
        await self.everybody(text)


class Hasty(Chat):
    """Ends all connections after the first message."""

    async def take(self, who: Socket, text: str) -> None:
        await self.everybody(text)
        await self.end()


class Flood(Chat):
    async def take(self, who: Socket, text: str) -> None:
        for _ in range(2_000):
            await self.everybody("spam")


class Huge(Chat):
    async def take(self, who: Socket, text: str) -> None:
        await self.everybody(text + "x" * (2 << 20))


class Unread(Chat):
    """Reads nothing that it is sent."""

    async def join(self, who: Socket) -> None:
        await anyio.sleep_forever()
