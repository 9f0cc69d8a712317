import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { accept, Connection } from './frames.ts'
import { join, leave, say } from './room.ts'

const server = createServer(async (request, response) => {
  if (request.url !== '/') return response.writeHead(404).end()
  response.setHeader('Content-Type', 'text/html; charset=utf-8')
  response.end(await readFile('public/index.html'))
})

server.on('upgrade', (request, stream) => {
  const key = request.headers['sec-websocket-key']
  if (request.url !== '/chat' || !key) return stream.end('HTTP/1.1 404 Not Found\r\n\r\n')
  stream.write(
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
      `Sec-WebSocket-Accept: ${accept(key)}\r\n\r\n`,
  )
  const client = new Connection(stream, (text) => say(client, text))
  stream.on('close', () => leave(client))
  stream.on('error', () => stream.destroy())
  join(client)
})

server.listen(Number(process.env.PORT))
