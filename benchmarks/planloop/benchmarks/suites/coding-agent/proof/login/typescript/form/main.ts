import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { begin, end, owner } from './sessions.ts'
import { authenticated } from './users.ts'

const escaped = (text: string) => text.replace(/[&<>"]/g, (each) => `&#${each.charCodeAt(0)};`)

const page = (body: string) => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Log in</title></head><body><main>${body}</main></body></html>`

const form = (refusal = '') =>
  page(`<h1>Please log in</h1>
${refusal && `<p role="alert">${refusal}</p>`}
<form method="post" action="/login">
  <p><label>User name <input name="user" autocomplete="username" required></label></p>
  <p><label>Password <input name="password" type="password" autocomplete="current-password" required></label></p>
  <p><button type="submit">Log in</button></p>
</form>`)

const home = (name: string) =>
  page(`<h1>Welcome, ${escaped(name)}</h1>
<form method="post" action="/logout"><button type="submit">Log out</button></form>`)

const token = (request: IncomingMessage) => /(?:^|; )session=([0-9a-f]+)/.exec(request.headers.cookie ?? '')?.[1] ?? ''

async function fields(request: IncomingMessage): Promise<URLSearchParams> {
  let body = ''
  for await (const chunk of request) body += chunk
  return new URLSearchParams(body)
}

function html(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-store' }).end(text)
}

function redirect(response: ServerResponse, cookie: string): void {
  response.writeHead(303, { location: '/', 'set-cookie': `session=${cookie}; HttpOnly; SameSite=Lax; Path=/` }).end()
}

createServer(async (request, response) => {
  const name = owner(token(request))
  switch (`${request.method} ${request.url}`) {
    case 'GET /':
      return html(response, 200, name ? home(name) : form())
    case 'POST /login': {
      const given = await fields(request)
      const user = authenticated(given.get('user') ?? '', given.get('password') ?? '')
      return user ? redirect(response, begin(user)) : html(response, 401, form('Wrong user name or password.'))
    }
    case 'POST /logout':
      end(token(request))
      return redirect(response, '')
    default:
      return html(response, 404, page('<h1>Not found</h1>'))
  }
}).listen(Number(process.env.PORT))
