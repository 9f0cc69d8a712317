import { createReadStream } from 'node:fs'
import * as http from 'node:http'
import { fileURLToPath } from 'node:url'

const page: string = fileURLToPath(new URL('../public/index.html', import.meta.url))

const server = http.createServer()
server.on('request', (_request, response) => {
  response.setHeader('content-type', 'text/html; charset=utf-8')
  createReadStream(page).pipe(response)
})
server.listen(Number(process.env.PORT), '0.0.0.0')
