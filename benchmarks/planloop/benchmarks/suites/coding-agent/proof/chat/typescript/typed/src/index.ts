import { createReadStream } from 'node:fs'
import { createServer } from 'node:http'
import { WebSocket, WebSocketServer } from 'ws'
import * as room from './room.ts'

interface Said {
  type: 'message'
  from: string
  body: string
}

function parsed(data: string): Said | undefined {
  try {
    const told = JSON.parse(data) as Said
    return told.type === 'message' && typeof told.body === 'string' ? told : undefined
  } catch {
    return undefined
  }
}

class Guest implements room.Client {
  private readonly socket: WebSocket

  constructor(socket: WebSocket) {
    this.socket = socket
  }

  send(text: string): void {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(text)
  }
}

const sockets = new WebSocketServer({ noServer: true })
sockets.on('connection', (socket) => {
  const guest = new Guest(socket)
  room.join(guest)
  socket.on('message', (data) => {
    const said = parsed(data.toString())
    if (said) room.say(guest, JSON.stringify(said))
  })
  socket.on('error', console.error)
  socket.on('close', () => room.leave(guest))
})

const server = createServer((request, response) => {
  response.writeHead(200, { 'content-type': 'text/html' })
  createReadStream('static/index.html').pipe(response)
})
server.on('upgrade', (request, stream, head) => {
  sockets.handleUpgrade(request, stream, head, (socket) => sockets.emit('connection', socket, request))
})
server.listen(Number(process.env.PORT))
