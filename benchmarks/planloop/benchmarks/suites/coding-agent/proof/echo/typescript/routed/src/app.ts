import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'

type Handler = (request: Request) => Promise<Response>

class Router {
  private readonly routes = new Map<string, Handler>()

  on(method: string, path: string, handler: Handler): this {
    this.routes.set(`${method} ${path}`, handler)
    return this
  }

  async answer(request: Request): Promise<Response> {
    const handler = this.routes.get(`${request.method} ${new URL(request.url).pathname}`)
    return handler ? handler(request) : new Response(null, { status: 404 })
  }
}

const router = new Router()
  .on('GET', '/', async () => Response.json({ status: 'ok' }))
  .on('POST', '/echo', async (request) => {
    const type = request.headers.get('content-type')
    return new Response(await request.arrayBuffer(), { headers: type ? { 'content-type': type } : {} })
  })

async function serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const chunks: Uint8Array[] = []
  for await (const chunk of incoming) chunks.push(chunk)
  const hasBody = incoming.method !== 'GET' && incoming.method !== 'HEAD'
  const headers = new Headers()
  if (incoming.headers['content-type']) headers.set('content-type', incoming.headers['content-type'])
  const url = `http://localhost${incoming.url}`
  const request = new Request(url, { method: incoming.method, headers, body: hasBody ? Buffer.concat(chunks) : null })
  const response = await router.answer(request)
  outgoing.writeHead(response.status, Object.fromEntries(response.headers))
  outgoing.end(Buffer.from(await response.arrayBuffer()))
}

createServer((incoming, outgoing) => void serve(incoming, outgoing)).listen(Number(process.env.PORT))
