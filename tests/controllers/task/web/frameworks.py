"""Small sites as they are written with real frameworks: components with state, drawn by React 18 and by Preact.

The components are the same for both, since both are written so; what differs is who draws them, when, and how events
and fields reach them. The frameworks are what `make test` has installed in `web/node_modules`.
"""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from tests.architecture.tree import ROOT
from tests.controllers.task.web.sites import Page, chat, drawn, let_in

INSTALLED = ROOT / "web" / "node_modules"


@dataclass(frozen=True)
class Framework:
    """`files` are served, in order; `begin` gives the components `h`, the hooks, `edits` (the event of a field that is
    being typed into) and `draw`.
    """

    name: str
    files: tuple[str, ...]
    begin: str

    def page(self, components: str) -> Page:
        """A document in which these are drawn."""
        scripts = "".join(f"<script src=/{name}></script>" for name in self.files)
        return Page(f"<div id=root></div>{scripts}", f"{self.begin}{components}")

    def beside(self, app: web.Application) -> web.Application:
        """`app`, which serves the framework, too."""
        missing = [name for name in self.files if not (INSTALLED / name).is_file()]
        assert not missing, f"not in web/node_modules: {missing}; `make test` installs them, as does `npm ci` in web/"

        async def send(request: web.Request) -> web.FileResponse:
            return web.FileResponse(INSTALLED / request.path.removeprefix("/"))

        for name in self.files:
            app.router.add_get(f"/{name}", send)
        return app


REACT = Framework(
    "React 18",
    ("react/umd/react.production.min.js", "react-dom/umd/react-dom.production.min.js"),
    """
const {createElement: h, Fragment, StrictMode, useCallback, useEffect, useRef, useState} = React;
const edits = 'onChange';
const draw = App => ReactDOM.createRoot(document.getElementById('root')).render(h(StrictMode, null, h(App)));
""",
)
PREACT = Framework(
    "Preact",
    ("preact/dist/preact.umd.js", "preact/hooks/dist/hooks.umd.js"),
    """
const {h, Fragment} = preact, {useCallback, useEffect, useRef, useState} = preactHooks;
const edits = 'onInput';
const draw = App => preact.render(h(App), document.getElementById('root'));
""",
)


LOGIN = """
const Field = ({id, label, value, set, ...more}) => h('div', {className: 'field'},
  h('label', {htmlFor: id}, label),
  h('input', {id, value, [edits]: event => set(event.target.value), ...more}));

function Login({enter}) {
  const [user, setUser] = useState(''), [pass, setPass] = useState('');
  const [wrong, setWrong] = useState(''), [busy, setBusy] = useState(false);
  const submit = async event => {
    event.preventDefault(); setBusy(true); setWrong('');
    const answer = await fetch('/api', {method: 'POST', body: JSON.stringify({user, pass})});
    const {ok} = await answer.json();
    setBusy(false);
    if (!ok) return setWrong('Invalid username or password');
    localStorage.setItem('user', user);
    enter(user);
  };
  return h('form', {onSubmit: submit},
    h('h2', null, 'Sign in'),
    h(Field, {id: 'user', label: 'Username', value: user, set: setUser, autoComplete: 'username'}),
    h(Field, {id: 'pass', label: 'Password', value: pass, set: setPass, type: 'password'}),
    wrong && h('p', {className: 'error', role: 'alert'}, wrong),
    h('button', {type: 'submit', disabled: busy || !user || !pass}, busy ? 'Signing in…' : 'Sign in'));
}

function App() {
  const [user, setUser] = useState(() => localStorage.getItem('user'));
  if (!user) return h(Login, {enter: setUser});
  return h('main', null, h('h1', null, 'Welcome, ', user, '!'),
    h('button', {onClick: () => { localStorage.clear(); setUser(null); }}, 'Log out'));
}
draw(App);
"""
CHAT = """
function App() {
  const [lines, setLines] = useState([]), [text, setText] = useState('');
  const [name, setName] = useState(''), [isIn, setIn] = useState(false);
  const room = useRef(null), end = useRef(null);
  useEffect(() => {
    if (!isIn) return;
    room.current = new WebSocket(`ws://${location.host}/ws`);
    room.current.onmessage = event => setLines(all => [...all, JSON.parse(event.data)]);
    return () => room.current.close();
  }, [isIn]);
  useEffect(() => { end.current?.scrollIntoView({behavior: 'smooth'}); }, [lines]);
  if (!isIn) return h('form', {onSubmit: event => { event.preventDefault(); if (name.trim()) setIn(true); }},
    h('input', {placeholder: 'Enter your name', value: name, [edits]: event => setName(event.target.value)}),
    h('button', null, 'Join chat'));
  const send = () => {
    if (!text.trim()) return;
    room.current.send(JSON.stringify({name, text}));
    setText('');
  };
  return h(Fragment, null,
    h('ul', {className: 'messages'},
      lines.map((line, i) => h('li', {key: i}, h('strong', null, line.name), ': ', h('span', null, line.text))),
      h('li', {ref: end})),
    h('input', {value: text, placeholder: 'Type a message...', [edits]: event => setText(event.target.value),
      onKeyDown: event => { if (event.key === 'Enter') send(); }}),
    h('button', {onClick: send, disabled: !text.trim()}, 'Send'));
}
draw(App);
"""
GAME = """
const LINES = [[0,1,2],[3,4,5],[6,7,8],[0,3,6],[1,4,7],[2,5,8],[0,4,8],[2,4,6]];
const winner = squares => {
  const line = LINES.find(([a, b, c]) => squares[a] && squares[a] === squares[b] && squares[a] === squares[c]);
  return line ? squares[line[0]] : null;
};
const LOOK = {float: 'left', width: '34px', height: '34px', margin: '-1px 0 0 -1px', padding: 0, fontSize: '24px',
  lineHeight: '34px', background: '#fff', border: '1px solid #999'};
const Square = ({mark, press}) => h('button', {className: 'square', style: LOOK, onClick: press}, mark);

function Board({squares, isNext, play}) {
  const press = i => {
    if (squares[i] || winner(squares)) return;
    play(squares.map((mark, j) => j === i ? (isNext ? 'X' : 'O') : mark));
  };
  const won = winner(squares);
  return h(Fragment, null,
    h('div', {className: 'status'}, won ? 'Winner: ' + won : 'Next player: ' + (isNext ? 'X' : 'O')),
    [0, 3, 6].map(row => h('div', {key: row, className: 'board-row', style: {overflow: 'hidden'}},
      [0, 1, 2].map(i => h(Square, {key: i, mark: squares[row + i], press: () => press(row + i)})))));
}

function App() {
  const [history, setHistory] = useState([Array(9).fill(null)]), [move, setMove] = useState(0);
  const play = squares => { setHistory([...history.slice(0, move + 1), squares]); setMove(move + 1); };
  return h('div', {className: 'game'},
    h('div', {className: 'game-board'}, h(Board, {squares: history[move], isNext: move % 2 === 0, play})),
    h('ol', null, history.map((_, i) => h('li', {key: i},
      h('button', {onClick: () => setMove(i)}, i ? 'Go to move #' + i : 'Go to game start')))));
}
draw(App);
"""
COUNTER = """
const Button = ({label, press}) => h('button', {type: 'button', 'aria-label': label, onClick: press},
  label === 'Increment' ? '+' : '-');

function App() {
  const [count, setCount] = useState(0);
  const up = useCallback(() => setCount(n => n + 1), []), down = useCallback(() => setCount(n => n - 1), []);
  useEffect(() => { document.title = `Count: ${count}`; }, [count]);
  return h('section', null, h('h1', null, 'Counter'),
    h(Button, {label: 'Decrement', press: down}), h('span', {className: 'count'}, count),
    h(Button, {label: 'Increment', press: up}));
}
draw(App);
"""


def login(page: Page) -> web.Application:
    """A page that asks its server whether to admit a user."""
    app = drawn(page)
    app.router.add_post("/api", let_in)
    return app


SITES = {"login": (LOGIN, login), "chat": (CHAT, chat), "game": (GAME, drawn), "counter": (COUNTER, drawn)}
"""Their components, and the server of a page that draws them."""
