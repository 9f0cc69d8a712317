"""Small sites that do the same in different styles, and fakes that only look as if they did.

Each is an aiohttp application: `login`, `chat`, `game`, `counter`, `canvas`. The styles differ in what no prompt fixes:
markup, labels, who draws the page, how it talks to its server.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import WSMsgType, web

ADA = ("ada", "lovelace")
CRASH = """let one = document.body;
for (let i = 0; i < 5_000; i++) one = one.appendChild(document.createElement('div'));
document.body.offsetTop;"""
"""Of elements nested as deeply as this the browser finds no places: its stack is used up."""


@dataclass(frozen=True)
class Page:
    """A document: its body, and the script at its end."""

    body: str = ""
    script: str = ""

    def answer(self) -> web.Response:
        text = (
            f"<!doctype html><meta charset=utf-8><title>A site</title><body>{self.body}<script>{self.script}</script>"
        )
        return web.Response(text=text, content_type="text/html")


@asynccontextmanager
async def served(app: web.Application) -> AsyncIterator[str]:
    """The address of the site while it is up."""
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def drawn(page: Page) -> web.Application:
    """A site of one page that needs no server."""
    app = web.Application()

    async def show(_: web.Request) -> web.Response:
        return page.answer()

    app.router.add_get("/{path:.*}", show)
    return app


# --- login


FORM = """<h1>Welcome</h1><form method=post action=/login><label for=a>User name</label> <input id=a name=n>
<label>Password <input type=password name=p></label> <button>Sign in</button></form>"""


def login_form(*, says: str = "Wrong user name or password", lets_in: str = "") -> web.Application:
    """A form that the server draws, with a cookie; `lets_in` is a mutant: `everybody`, `nobody`, `forgets`."""
    app = web.Application()

    async def show(request: web.Request) -> web.Response:
        name = request.cookies.get("name")
        return Page(f"<p>Hello, <b>{name}</b>!</p><a href=/out>Log out</a>" if name else FORM).answer()

    async def enter(request: web.Request) -> web.Response:
        form = await request.post()
        is_right = (form["n"], form["p"]) == ADA
        if lets_in == "nobody" or (not is_right and lets_in != "everybody"):
            return Page(f"{FORM}<p>{says}</p>").answer()
        name = str(form["n"])
        if lets_in == "forgets":
            return Page(f"<p>Hello, {name}</p>").answer()
        answer = web.HTTPFound("/")
        answer.set_cookie("name", name)
        raise answer

    app.router.add_get("/", show)
    app.router.add_post("/login", enter)
    return app


async def let_in(request: web.Request) -> web.Response:
    raw = await request.json()
    return web.json_response({"ok": (raw["user"], raw["pass"]) == ADA})


LOGIN_BARE = """<div id=app><input placeholder="Your user name"><input type=password placeholder="Password">
<input type=button value="Go"></div>"""
LOGIN_BARE_SCRIPT = """
const app = document.getElementById('app'), [user, pass, go] = app.querySelectorAll('input');
const show = name => { app.textContent = 'Welcome back ' + name };
if (localStorage.name) show(localStorage.name);
go.onclick = async () => {
  const answer = await fetch('/api', {method: 'POST', body: JSON.stringify({user: user.value, pass: pass.value})});
  if (!(await answer.json()).ok) return alert('Nope. That is not correct.');
  localStorage.name = user.value; show(user.value);
};"""

# A little framework: state, and a view that is redrawn at every change, some time after the page has loaded.
FRAMEWORK = """
let state = {}, root = document.body.appendChild(document.createElement('div'));
const draw = () => { root.innerHTML = view(state); };
const set = more => { Object.assign(state, more); setTimeout(draw, 20); };
root.addEventListener('click', event => {
  const act = event.target.closest('[data-act]'); if (act) acts[act.dataset.act](act.dataset); });
root.addEventListener('input', event => { state[event.target.dataset.field] =
  event.target.value ?? event.target.textContent; });
setTimeout(draw, 200);"""
LOGIN_SOUP_SCRIPT = (
    """
const field = (name, label, secret) => `<div><div>${label}</div><div><input data-field=${name}
  value="${state[name] ?? ''}" ${secret ? 'type=password' : ''}></div></div>`;
const view = s => s.in ? `<div role=status>Signed in as ${s.user}</div>`
  : `<div>${field('user', 'E-mail or account')}${field('pass', 'Secret', true)}
     <div role=button tabindex=0 data-act=enter>Continue</div>
     <div role=alert>${s.wrong ?? ''}</div></div>`;
const acts = {enter: async () => {
  const answer = await (await fetch('/api', {method: 'POST', body: JSON.stringify(state)})).json();
  if (answer.ok) sessionStorage.user = state.user;
  set(answer.ok ? {in: true} : {wrong: 'We do not know you.'}); }};
"""
    + FRAMEWORK
    + "if (sessionStorage.user) Object.assign(state, {in: true, user: sessionStorage.user});"
)


def login_bare() -> web.Application:
    """Inputs with placeholders and no form; a dialog says no."""
    app = drawn(Page(LOGIN_BARE, LOGIN_BARE_SCRIPT))
    app.router.add_post("/api", let_in)
    return app


def login_soup() -> web.Application:
    """Boxes that a script draws, with labels that belong to nothing."""
    app = drawn(Page("", LOGIN_SOUP_SCRIPT))
    app.router.add_post("/api", let_in)
    return app


# --- chat


_CHAT_FORM = (
    """<ul id=log></ul><form id=f><label>Message <input id=m autocomplete=off></label><button>Send</button></form>"""
)
_CHAT_FORM_SCRIPT = """
const socket = new WebSocket('ws://' + location.host + '/ws');
socket.onmessage = event => { const li = document.createElement('li'); li.textContent = event.data; log.append(li); };
f.onsubmit = event => { event.preventDefault(); socket.send(m.value); m.value = ''; };"""
_CHAT_ENTER = """<div id=out></div><input id=m placeholder="Say something…">"""
_CHAT_ENTER_SCRIPT = """
let after = 0;
const name = prompt('Your name?');
m.addEventListener('keydown', event => { if (event.key != 'Enter') return;
  fetch('/say', {method: 'POST', body: JSON.stringify({text: m.value})}); m.value = ''; });
(async () => { for (;;) {
  const found = await (await fetch('/heard?after=' + after)).json();
  for (const one of found) out.append(Object.assign(document.createElement('p'), {textContent: one}));
  after += found.length; } })();"""
_CHAT_SOUP_SCRIPT = (
    """
const view = s => !s.in
  ? `<div><span>Pick a nickname</span> <input data-field=nick></div>
     <div data-act=join style="cursor:pointer">Join</div>`
  : `<div role=log>${(s.lines ?? []).map(one => `<div>${one}</div>`).join('')}</div>
     <div style="border:1px solid; width:300px; height:30px" contenteditable data-field=text></div>
     <a href=# data-act=say>➤</a>`;
const socket = new WebSocket('ws://' + location.host + '/ws');
socket.onmessage = event => set({lines: [...(state.lines ?? []), event.data]});
const acts = {join: () => set({in: true}),
  say: () => { socket.send(state.nick + ': ' + state.text); set({text: ''}); }};"""
    + FRAMEWORK
)


def chat(page: Page, *, mutant: str = "") -> web.Application:
    """A room over websockets and over long polls; the mutants: `mirror` tells only the sender, `silent` nobody.

    `others` tells everybody but the sender, and who comes later all that was said.
    """
    app = web.Application()
    sockets: set[web.WebSocketResponse] = set()
    lines: list[str] = []
    news = asyncio.Condition()

    async def show(_: web.Request) -> web.Response:
        return page.answer()

    async def talk(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        sockets.add(socket)
        for line in lines:
            await socket.send_str(line)
        async for message in socket:
            if message.type is WSMsgType.TEXT and mutant != "silent":
                lines.extend([message.data] if mutant == "others" else [])
                for other in [socket] if mutant == "mirror" else sockets - {socket if mutant == "others" else None}:
                    await other.send_str(message.data)
        sockets.discard(socket)
        return socket

    async def say(request: web.Request) -> web.Response:
        async with news:
            lines.append(json.loads(await request.text())["text"])
            news.notify_all()
        return web.Response()

    async def heard(request: web.Request) -> web.Response:
        after = int(request.query["after"])
        async with news:
            await news.wait_for(lambda: len(lines) > after)
        return web.json_response(lines[after:])

    app.router.add_get("/", show)
    app.router.add_get("/ws", talk)
    app.router.add_post("/say", say)
    app.router.add_get("/heard", heard)
    return app


# --- tic-tac-toe


RULES = """
let turn = 'X', board = Array(9).fill(''), over = '';
const LINES = [[0,1,2],[3,4,5],[6,7,8],[0,3,6],[1,4,7],[2,5,8],[0,4,8],[2,4,6]];
const play = i => { if (over || board[i]) return; board[i] = turn;
  if (LINES.some(line => line.every(j => board[j] == turn))) over = turn; else turn = turn == 'X' ? 'O' : 'X'; };
"""
_GAME_BUTTONS = """<h1>Tic-tac-toe</h1><div id=b style="display:grid;grid-template-columns:repeat(3,60px)"></div>
<p id=s aria-live=polite></p><button id=new>New game</button>"""
_GAME_BUTTONS_SCRIPT = (
    RULES
    + """
for (let i = 0; i < 9; i++) { const cell = document.createElement('button'); cell.style.height = '60px';
  cell.onclick = () => { play(i); show(); }; b.append(cell); }
const show = () => { [...b.children].forEach((cell, i) => cell.textContent = board[i]);
  s.textContent = over ? over + ' wins!' : turn + ' to move'; }; show();"""
)
_GAME_TABLE = (
    """<p id=s>Turn: X</p><table border=1 id=t>
"""
    + "<tr><td></td><td></td><td></td></tr>" * 3
    + "</table><style>td{width:40px;height:40px}</style>"
)
_GAME_TABLE_SCRIPT = (
    RULES
    + """
const cells = [...t.querySelectorAll('td')];
t.onclick = event => { const i = cells.indexOf(event.target); if (i < 0) return;
  play(i); cells[i].textContent = board[i];
  s.textContent = over ? 'Winner: ' + over : 'Turn: ' + turn; };"""
)
_GAME_BOXES_SCRIPT = (
    RULES
    + """
const look = 'display:inline-block;vertical-align:top;width:58px;height:58px;border:1px solid;line-height:58px';
const box = (mark, i) => `<div data-act=cell data-i=${i} style="${look}">${mark}</div>`;
const view = () => `<div><div style="width:180px;line-height:0">` + board.map(box).join('') +
  `</div><div>${over ? 'Player ' + over + ' has won' : ''}</div></div>`;
const acts = {cell: data => { play(+data.i); set({}); }};"""
    + FRAMEWORK
)
_COUNTER = """<p>Count: <output id=n>0</output></p><button id=up>+</button><button id=down>−</button>"""
_COUNTER_SCRIPT = "let i = 0; up.onclick = () => n.textContent = ++i; down.onclick = () => n.textContent = --i;"
_COUNTER_FIELD = """<input readonly id=n value=0><div id=up style="cursor:pointer">Increment</div>"""
_COUNTER_FIELD_SCRIPT = "up.onclick = () => n.value = +n.value + 1;"
_COUNTER_DRAWN_SCRIPT = (
    """
const view = s => `<div><span>You clicked</span> <span>${s.n ?? 0}</span> times</div>
  <div data-act=up>Click to add one</div>`;
const acts = {up: () => set({n: (state.n ?? 0) + 1})};"""
    + FRAMEWORK
)

_CANVAS = """<canvas id=c width=200 height=100></canvas><p>Use the arrow keys.</p>"""
_CANVAS_SCRIPT = """
let x = 10; const g = c.getContext('2d');
const draw = () => { g.fillStyle = 'white'; g.fillRect(0, 0, 200, 100);
  g.fillStyle = 'red'; g.fillRect(x, 40, 20, 20); };
addEventListener('keydown', event => { if (event.key == 'ArrowRight') { x += 10; draw(); } }); draw();"""
_CANVAS_FRAMES_SCRIPT = """
let x = 10, wanted = 10; const g = c.getContext('2d'); c.tabIndex = 0; c.focus();
const draw = () => { x += Math.sign(wanted - x); g.clearRect(0, 0, 200, 100); g.fillRect(x, 40, 20, 20);
  requestAnimationFrame(draw); };
c.onkeydown = event => { if (event.key == 'ArrowRight') wanted += 5; }; draw();"""
_CANVAS_VECTOR = """<svg id=s width=200 height=100><circle id=o cx=10 cy=50 r=9 /></svg>"""
_CANVAS_VECTOR_SCRIPT = """
document.onkeydown = event => { if (event.key == 'ArrowRight') o.setAttribute('cx', +o.getAttribute('cx') + 7); };"""


CHAT_FORM = Page(_CHAT_FORM, _CHAT_FORM_SCRIPT)
CHAT_ENTER = Page(_CHAT_ENTER, _CHAT_ENTER_SCRIPT)
CHAT_SOUP = Page("", _CHAT_SOUP_SCRIPT)
GAME_BUTTONS = Page(_GAME_BUTTONS, _GAME_BUTTONS_SCRIPT)
GAME_TABLE = Page(_GAME_TABLE, _GAME_TABLE_SCRIPT)
GAME_BOXES = Page("", _GAME_BOXES_SCRIPT)
COUNTER = Page(_COUNTER, _COUNTER_SCRIPT)
COUNTER_FIELD = Page(_COUNTER_FIELD, _COUNTER_FIELD_SCRIPT)
COUNTER_DRAWN = Page("", _COUNTER_DRAWN_SCRIPT)
CANVAS = Page(_CANVAS, _CANVAS_SCRIPT)
CANVAS_FRAMES = Page(_CANVAS, _CANVAS_FRAMES_SCRIPT)
CANVAS_VECTOR = Page(_CANVAS_VECTOR, _CANVAS_VECTOR_SCRIPT)
