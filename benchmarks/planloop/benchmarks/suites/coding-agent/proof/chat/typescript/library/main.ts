import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { WebSocketServer } from 'ws'
import { join, leave, say } from './room.ts'

const files: Record<string, [string, string]> = {
  '/': ['index.html', 'text/html; charset=utf-8'],
  '/chat.js': ['chat.js', 'text/javascript; charset=utf-8'],
}

const server = createServer((request, response) => {
  const file = files[request.url ?? '/']
  if (!file) return response.writeHead(404).end()
  response.writeHead(200, { 'content-type': file[1] }).end(readFileSync(`public/${file[0]}`))
})

new WebSocketServer({ server, path: '/ws' }).on('connection', (socket) => {
  const client = { send: (text: string) => socket.send(text) }
  join(client)
  socket.on('message', (data) => say(client, data.toString()))
  socket.on('close', () => leave(client))
  socket.on('error', () => socket.terminate())
})

server.listen(Number(process.env.PORT))
