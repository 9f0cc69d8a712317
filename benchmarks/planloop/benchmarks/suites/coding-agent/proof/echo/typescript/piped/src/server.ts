import * as http from 'node:http'

/** Nothing is held in memory: what comes in goes out. */
http
  .createServer((req, res) => {
    switch (`${req.method} ${req.url?.split('?')[0]}`) {
      case 'POST /echo':
        res.statusCode = 200
        if (req.headers['content-type']) res.setHeader('Content-Type', req.headers['content-type'])
        req.pipe(res)
        return
      case 'GET /':
        res.setHeader('Content-Type', 'text/html; charset=utf-8')
        res.end('<!doctype html><title>echo</title><h1>Up and running</h1>')
        return
      default:
        res.statusCode = 404
        res.end(JSON.stringify({ error: 'no such thing' }))
    }
  })
  .listen(parseInt(process.env.PORT ?? '8080'), '0.0.0.0')
