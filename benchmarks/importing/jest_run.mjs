// Runs test files: node jest-run.mjs WORD FILE…; prints `WORD <tests> <failed>` when all of them have been run.
import { pathToFileURL } from 'node:url'
import { resolve } from 'node:path'

const [, , word, ...files] = process.argv.splice(0)
process.argv.push('node')
const say = process.stdout.write.bind(process.stdout)
const { run } = await import('@jest/globals')
let broken = 0
for (const file of files) {
  try {
    await import(pathToFileURL(resolve(file)).href)
  } catch (error) {
    broken += 1
    say(`${file}: ${error?.stack ?? error}\n`)
  }
}
const { tests, failed } = await run(say)
say(`\n${word} ${tests} ${failed + broken}\n`, () => process.exit(0))
