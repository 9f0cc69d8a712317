import { readFileSync } from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { begin, end, owner } from './sessions.ts'
import { authenticated } from './users.ts'

const web = path.join(import.meta.dirname, '../web/index.html')

function session(method: string | undefined, token: string, body: string): object {
  if (method === 'POST') {
    const given = new URLSearchParams(body)
    const user = authenticated(given.get('name') ?? '', given.get('secret') ?? '')
    return user ? { ok: true, user, token: begin(user) } : { ok: false }
  }
  if (method === 'DELETE') {
    end(token)
    return { ok: true }
  }
  const user = owner(token)
  return user ? { ok: true, user } : { ok: false }
}

const server = new http.Server()
server.on('request', (request, response) => {
  if (request.url !== '/session') {
    response.setHeader('Content-Type', 'text/html;charset=utf-8')
    response.end(readFileSync(web, 'utf8'))
    return
  }
  let body = ''
  request.on('data', (chunk: Buffer) => (body += chunk.toString()))
  request.on('end', () => {
    const token = (request.headers.authorization ?? '').replace('Bearer ', '')
    response.end(JSON.stringify(session(request.method, token, body)))
  })
})
server.listen({ port: Number(process.env.PORT), host: '0.0.0.0' })
