import { createServer } from 'node:http'
import { reply } from './reply.ts'

const server = createServer(async (request, response) => {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const path = new URL(request.url ?? '/', 'http://localhost').pathname
  if (path === '/') return response.end('echo is up; POST to /echo')
  if (path !== '/echo' || request.method !== 'POST') return response.writeHead(404).end('not found')
  const answer = await reply(Buffer.concat(chunks), request.headers['content-type'])
  response.writeHead(200, answer.type ? { 'content-type': answer.type } : {}).end(answer.body)
})

server.listen(Number(process.env.PORT))
