"""Small programs of our own that are put into stock images."""

from __future__ import annotations

from typing import Final

from planloop.containers.images.stock import JAVA

CLOJURE: Final = f"""\
#!/bin/sh
# clojure [-cp PATHS] [what clojure.main takes]
paths=${{CLASSPATH:-.}}
case "$1" in -cp|-classpath) paths=$2; shift 2;; esac
jars=
for jar in /usr/share/java/*.jar; do [ -L "$jar" ] || jars="$jars:$jar"; done
exec /{JAVA}/bin/java -cp "$paths$jars" clojure.main "$@"
"""

NPM: Final = r"""#!/usr/bin/node
// npm test | start | stop | run NAME [--] [ARGUMENTS]: runs a package's scripts as npm does, and does nothing else.
'use strict'
const { spawn } = require('child_process')
const fs = require('fs')
const path = require('path')

const VERBS = { t: 'test', tst: 'test', test: 'test', start: 'start', stop: 'stop' }

function fail(said) {
  console.error(`npm: ${said}`)
  process.exit(1)
}

function chosen(argv) {
  const end = argv.indexOf('--')
  const own = end < 0 ? argv : argv.slice(0, end)
  const [verb, ...words] = own.filter((word) => !word.startsWith('-'))
  const isRun = verb === 'run' || verb === 'run-script'
  const name = isRun ? words.shift() : VERBS[verb]
  if (!name) fail('this one knows test, start, stop and run NAME; for the whole npm take an image such as node:20')
  const isOptional = own.includes('--if-present')
  return { name, isOptional, rest: [...words, ...(end < 0 ? [] : argv.slice(end + 1))] }
}

function root() {
  for (let folder = process.cwd(); ; folder = path.dirname(folder)) {
    if (fs.existsSync(path.join(folder, 'package.json'))) return folder
    if (folder === path.dirname(folder)) fail(`there is no package.json in ${process.cwd()} or above it`)
  }
}

function run(folder, told, name, script, rest) {
  const bins = []
  for (let at = folder; at !== path.dirname(at); at = path.dirname(at)) bins.push(path.join(at, 'node_modules/.bin'))
  const env = {
    ...process.env,
    PATH: [...bins, process.env.PATH].join(':'),
    npm_lifecycle_event: name,
    npm_lifecycle_script: script,
    npm_package_json: path.join(folder, 'package.json'),
    npm_package_name: told.name || '',
    npm_package_version: told.version || '',
  }
  console.log(`\n> ${[told.name, told.version].filter(Boolean).join('@')} ${name}\n> ${script}\n`)
  const quoted = rest.map((word) => ` '${word.replace(/'/g, `'\\''`)}'`).join('')
  return new Promise((resolve) => {
    const child = spawn('/bin/sh', ['-c', script + quoted], { cwd: folder, env, stdio: 'inherit' })
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
    child.on('exit', (code, signal) => resolve(signal ? 128 + require('os').constants.signals[signal] : code))
  })
}

async function main() {
  const { name, isOptional, rest } = chosen(process.argv.slice(2))
  const folder = root()
  const told = JSON.parse(fs.readFileSync(path.join(folder, 'package.json'), 'utf8'))
  const scripts = { ...(fs.existsSync(path.join(folder, 'server.js')) && { start: 'node server.js' }), ...told.scripts }
  if (!scripts[name] && isOptional) return 0
  if (!scripts[name]) fail(`missing script: "${name}"; there are ${Object.keys(scripts).join(', ') || 'none'}`)
  for (const each of [`pre${name}`, name, `post${name}`]) {
    const code = scripts[each] ? await run(folder, told, each, scripts[each], each === name ? rest : []) : 0
    if (code) return code
  }
  return 0
}

main().then((code) => process.exit(code))
"""
"""Debian's npm is 390 packages; what a plan runs in a container without a network is a package's scripts."""
