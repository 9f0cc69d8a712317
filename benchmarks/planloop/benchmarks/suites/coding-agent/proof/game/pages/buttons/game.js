const LINES = [
  [0, 1, 2], [3, 4, 5], [6, 7, 8],
  [0, 3, 6], [1, 4, 7], [2, 5, 8],
  [0, 4, 8], [2, 4, 6],
]

const board = document.querySelector('#board')
const status = document.querySelector('#status')
let squares = Array(9).fill('')

const turn = () => (squares.filter(Boolean).length % 2 ? 'O' : 'X')
const winner = () => LINES.map(([a, b, c]) => squares[a] === squares[b] && squares[b] === squares[c] && squares[a])
  .find(Boolean)
const isFull = () => squares.every(Boolean)

function told() {
  const won = winner()
  if (won) return `${won} wins!`
  if (isFull()) return 'It is a draw.'
  return `It is ${turn()}'s turn`
}

function play(at) {
  if (squares[at]) return
  if (winner()) return
  squares[at] = turn()
  show()
}

function show() {
  status.textContent = told()
  cells.forEach((cell, at) => (cell.textContent = squares[at]))
}

function renew() {
  squares = Array(9).fill('')
  show()
}

const cells = squares.map((_, at) => {
  const cell = document.createElement('button')
  cell.addEventListener('click', () => play(at))
  board.append(cell)
  return cell
})
document.querySelector('#new').addEventListener('click', renew)
show()
