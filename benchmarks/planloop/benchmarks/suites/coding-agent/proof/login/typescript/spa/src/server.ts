import { readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage } from 'node:http'
import * as sessions from './sessions.ts'
import { authenticated } from './users.ts'

interface Answer {
  status: number
  json?: unknown
  cookie?: string
}

const page = await readFile(new URL('../public/index.html', import.meta.url))

function sid(request: IncomingMessage): string {
  const pairs = (request.headers.cookie ?? '').split('; ').map((pair) => pair.split('='))
  return Object.fromEntries(pairs).sid ?? ''
}

async function json(request: IncomingMessage): Promise<Record<string, unknown>> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return JSON.parse(Buffer.concat(chunks).toString() || '{}')
}

const api: Record<string, (request: IncomingMessage) => Promise<Answer>> = {
  'GET /api/me': async (request) => {
    const name = sessions.owner(sid(request))
    return name ? { status: 200, json: { name } } : { status: 401, json: { error: 'nobody' } }
  },
  'POST /api/login': async (request) => {
    const { username, password } = await json(request)
    const name = authenticated(String(username), String(password))
    if (!name) return { status: 401, json: { error: 'refused' } }
    return { status: 200, json: { name }, cookie: sessions.begin(name) }
  },
  'POST /api/logout': async (request) => {
    sessions.end(sid(request))
    return { status: 204, cookie: '' }
  },
}

createServer(async (request, response) => {
  const handler = api[`${request.method} ${request.url}`]
  if (!handler) {
    const isPage = request.method === 'GET' && request.url === '/'
    response.writeHead(isPage ? 200 : 404, { 'content-type': 'text/html' }).end(isPage ? page : '')
    return
  }
  const { status, json: told, cookie } = await handler(request)
  if (cookie !== undefined) response.setHeader('set-cookie', `sid=${cookie}; Path=/; HttpOnly`)
  response.writeHead(status, { 'content-type': 'application/json' }).end(told ? JSON.stringify(told) : '')
}).listen(Number(process.env.PORT))
