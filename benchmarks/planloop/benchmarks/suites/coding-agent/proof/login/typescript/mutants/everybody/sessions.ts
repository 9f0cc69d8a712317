import { randomBytes } from 'node:crypto'

const names = new Map<string, string>()

export function begin(name: string): string {
  const token = randomBytes(16).toString('hex')
  names.set(token, name)
  return token
}

export function owner(token: string): string | undefined {
  return [...names.values()].at(-1)
}

export function end(token: string): void {
  names.delete(token)
}
