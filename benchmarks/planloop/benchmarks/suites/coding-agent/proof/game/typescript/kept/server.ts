import { createServer } from 'node:http'

/** One board for everybody, kept here: whoever opens the page sees the game as it stands. */

const lines = ['012', '345', '678', '036', '147', '258', '048', '246'].map((line) => [...line].map(Number))
let board: string[] = Array(9).fill('')

const next = () => (board.filter(Boolean).length % 2 ? 'O' : 'X')
const winner = () => ['X', 'O'].find((mark) => lines.some((line) => line.every((at) => board[at] === mark)))

function status(): string {
  const won = winner()
  if (won) return `${won} wins`
  return board.every(Boolean) ? 'Draw' : `${next()} to move`
}

function play(at: number): void {
  if (board[at] === '' && !winner()) board[at] = next()
}

const square = (mark: string, at: number) => `<button name="at" value="${at}">${mark}</button>`

const page = () => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Three in a row</title><link rel="icon" href="data:,">
<style>.board { display: grid; grid-template-columns: repeat(3, 70px); grid-auto-rows: 70px }</style></head>
<body><p>${status()}</p>
<form method="post" action="/move" class="board">${board.map(square).join('')}</form>
<form method="post" action="/new"><button>New game</button></form></body></html>`

createServer(async (request, response) => {
  if (request.method !== 'POST') {
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-store' }).end(page())
    return
  }
  let body = ''
  for await (const chunk of request) body += chunk
  if (request.url === '/new') board = Array(9).fill('')
  else play(Number(new URLSearchParams(body).get('at')))
  response.writeHead(303, { location: '/' }).end()
}).listen(Number(process.env.PORT))
