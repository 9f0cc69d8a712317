// What both runners on Node begin with, before anything of a solution is loaded.
import fs from 'node:fs'

const KEY_BYTES = 32
const exit = process.exit.bind(process)

// The key that stdin says, once: whoever asks again, as a solution may, finds stdin at its end and ends the run.
export function takeKey() {
  const key = new Uint8Array(KEY_BYTES)
  for (let had = 0; had < KEY_BYTES; ) {
    const got = fs.readSync(0, key, had, KEY_BYTES - had, null)
    if (got === 0) exit(2)
    had += got
  }
  return key
}
