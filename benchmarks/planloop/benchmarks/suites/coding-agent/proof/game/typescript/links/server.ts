import { createServer } from 'node:http'

/** The whole game is in the address: `/?b=X-O------`, a mark or a dash for each square. */

type Mark = 'X' | 'O'

const lines = ['012', '345', '678', '036', '147', '258', '048', '246'].map((line) => [...line].map(Number))

const winner = (board: string): Mark | undefined =>
  (['X', 'O'] as const).find((mark) => lines.some((line) => line.every((at) => board[at] === mark)))

const next = (board: string): Mark => ([...board].filter((mark) => mark !== '-').length % 2 ? 'O' : 'X')

function status(board: string): string {
  const won = winner(board)
  if (won) return `Player ${won} has won`
  return board.includes('-') ? `Player ${next(board)} to move` : 'A draw!'
}

function square(board: string, at: number): string {
  if (board[at] !== '-') return `<span class="square">${board[at]}</span>`
  if (winner(board)) return '<span class="square"></span>'
  const moved = board.slice(0, at) + next(board) + board.slice(at + 1)
  return `<a class="square" href="/?b=${moved}" aria-label="square ${at + 1}"></a>`
}

const page = (board: string) => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>OXO</title><link rel="icon" href="data:,">
<style>
  .board { width: 240px; display: flex; flex-wrap: wrap }
  .square { box-sizing: border-box; width: 80px; height: 80px; border: 1px solid; font: 40px/78px serif; text-align: center }
</style></head>
<body><h1>OXO</h1><h2>${status(board)}</h2>
<div class="board">${[...board].map((_, at) => square(board, at)).join('')}</div>
<p><a href="/">Start a new game</a></p></body></html>`

createServer((request, response) => {
  const asked = new URL(request.url ?? '/', 'http://localhost').searchParams.get('b') ?? ''
  const board = /^[XO-]{9}$/.test(asked) ? asked : '---------'
  response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(page(board))
}).listen(Number(process.env.PORT))
