// Runs test files: node jest-run.mjs FILE…; writes `KEY <tests> <failed>` to fd 3 when all of them have been run, where
// KEY is what stdin said before any of their code was loaded. It stays bytes in a variable here, as text would be in a
// snapshot of the heap; and what it is written with was taken before it could be replaced.
import fs from 'node:fs'
import { pathToFileURL } from 'node:url'
import { resolve } from 'node:path'
import { takeKey } from './run-key.mjs'

const { writeSync } = fs
const exit = process.exit.bind(process)
const key = takeKey()
const files = process.argv.splice(2)
const say = (text) => writeSync(1, text)
const { takeRun } = await import('@jest/globals')
const run = takeRun()
// Node froze what `Array` and the like can do; here their names are held, too, as the tests use them.
for (const name of Object.getOwnPropertyNames(globalThis)) {
  const { configurable, writable } = Object.getOwnPropertyDescriptor(globalThis, name)
  if (configurable && writable) Object.defineProperty(globalThis, name, { configurable: false, writable: false })
}
let broken = 0
for (let at = 0; at < files.length; at += 1) {
  try {
    await import(pathToFileURL(resolve(files[at])).href)
  } catch (error) {
    broken += 1
    say(`${files[at]}: ${error?.stack ?? error}\n`)
  }
}
const { tests, failed } = await run(say)
writeSync(3, key)
writeSync(3, ` ${tests} ${failed + broken}\n`)
exit(0)
