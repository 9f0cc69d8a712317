// A stand-in for `@jest/globals`: describe, it, hooks and expect, as far as exercises use them. Nothing is skipped.
import { AssertionError } from 'node:assert'
import util from 'node:util'

// Taken now: a solution may write over a module of Node, but not over what was taken from it.
const { inspect, isDeepStrictEqual } = util

const top = { name: '', tests: [], groups: [], each: { before: [], after: [] }, all: { before: [], after: [] } }
let at = top

export function describe(name, body) {
  const group = { name, tests: [], groups: [], each: { before: [], after: [] }, all: { before: [], after: [] } }
  at.groups.push(group)
  const outer = at
  at = group
  try {
    body()
  } finally {
    at = outer
  }
}
const rows = (make) => (table) => (name, body) =>
  table.forEach((row) => make(String(name), () => body(...(Array.isArray(row) ? row : [row]))))
export function it(name, body) {
  at.tests.push({ name, body })
}
for (const each of [describe, it]) {
  Object.freeze(Object.assign(each, { only: each, skip: each, concurrent: each, each: rows(each) }))
}
export const test = it
export const xit = it
export const xtest = it
export const fit = it
export const xdescribe = describe
export const beforeEach = (body) => at.each.before.push(body)
export const afterEach = (body) => at.each.after.push(body)
export const beforeAll = (body) => at.all.before.push(body)
export const afterAll = (body) => at.all.after.push(body)

const called = async (body) =>
  body.length > 0 ? new Promise((done, fail) => body((error) => (error ? fail(error) : done()))) : body()

async function run(say, group, before, after) {
  const counts = { tests: 0, failed: 0 }
  const [first, last] = [[...before, ...group.each.before], [...group.each.after, ...after]]
  for (const body of group.all.before) await called(body)
  for (const one of group.tests) {
    counts.tests += 1
    try {
      for (const body of first) await called(body)
      await called(one.body)
    } catch (error) {
      counts.failed += 1
      say(`FAILED ${group.name} ${one.name}: ${error?.message ?? error}\n`)
    }
    for (const body of last) await called(body)
  }
  for (const inner of group.groups) {
    const found = await run(say, inner, first, last)
    counts.tests += found.tests
    counts.failed += found.failed
  }
  for (const body of group.all.after) await called(body)
  return counts
}
let isTaken = false
// What runs the tests: for the runner, which is first; a solution that asks is told nothing of what the tests expect.
export function takeRun() {
  if (isTaken) throw new Error('the tests are run by their runner')
  isTaken = true
  return (say) => run(say, top, [], [])
}

// Equality of `toEqual`: members that are undefined do not count, nor what something is an instance of.
function plain(value, seen = new Map()) {
  if (typeof value !== 'object' || value === null) return value
  if (seen.has(value)) return seen.get(value)
  if (value instanceof Date || value instanceof RegExp || ArrayBuffer.isView(value)) return value
  if (value instanceof Error) return { message: value.message }
  if (value instanceof Map) return new Map([...value].map(([key, one]) => [plain(key, seen), plain(one, seen)]))
  if (value instanceof Set) return new Set([...value].map((one) => plain(one, seen)))
  const out = Array.isArray(value) ? [] : {}
  seen.set(value, out)
  if (Array.isArray(value)) value.forEach((one) => out.push(plain(one, seen)))
  else for (const key of Reflect.ownKeys(value)) if (value[key] !== undefined) out[key] = plain(value[key], seen)
  return out
}
const like = (one, other) => typeof other?.asymmetricMatch === 'function'
  ? other.asymmetricMatch(one)
  : isDeepStrictEqual(plain(one), plain(other))

function thrown(body, wanted) {
  try {
    body()
  } catch (error) {
    return fits(error, wanted)
  }
  return false
}
function fits(error, wanted) {
  const message = String(error?.message ?? error)
  if (wanted === undefined) return true
  if (typeof wanted === 'string') return message.includes(wanted)
  if (wanted instanceof RegExp) return wanted.test(message)
  if (typeof wanted === 'function') return error instanceof wanted
  return message === wanted.message
}
const subset = (value, wanted) =>
  typeof wanted !== 'object' || wanted === null
    ? like(value, wanted)
    : Reflect.ownKeys(wanted).every((key) => value != null && subset(value[key], wanted[key]))

const isNumber = (value) => typeof value === 'number' || typeof value === 'bigint'
const matchers = {
  __proto__: null,
  toBe: Object.is,
  toEqual: like,
  toStrictEqual: isDeepStrictEqual,
  toMatchObject: subset,
  toThrow: thrown,
  toThrowError: thrown,
  toBeTruthy: (value) => Boolean(value),
  toBeFalsy: (value) => !value,
  toBeNull: (value) => value === null,
  toBeUndefined: (value) => value === undefined,
  toBeDefined: (value) => value !== undefined,
  toBeNaN: (value) => Number.isNaN(value),
  toBeCloseTo: (value, other, digits = 2) => value === other || Math.abs(value - other) < 10 ** -digits / 2,
  toBeGreaterThan: (value, other) => isNumber(value) && value > other,
  toBeGreaterThanOrEqual: (value, other) => isNumber(value) && value >= other,
  toBeLessThan: (value, other) => isNumber(value) && value < other,
  toBeLessThanOrEqual: (value, other) => isNumber(value) && value <= other,
  toBeInstanceOf: (value, other) => value instanceof other,
  toContain: (value, other) => (typeof value === 'string' ? value.includes(other) : [...value].includes(other)),
  toContainEqual: (value, other) => [...value].some((one) => like(one, other)),
  toHaveLength: (value, length) => value.length === length,
  toHaveProperty: (value, key, ...other) => key in value && (other.length === 0 || like(value[key], other[0])),
  toMatch: (value, other) => typeof value === 'string' && (other instanceof RegExp ? other.test(value) : value.includes(other)),
}

function check(value, name, isNot, args) {
  const found = matchers[name].call({ equals: like, isNot }, value, ...args)
  const told = typeof found === 'object' ? found : { pass: found }
  if (told.pass === isNot) {
    const words = told.message?.() ?? `${inspect(value)} ${isNot ? 'not ' : ''}${name} ${args.map((one) => inspect(one))}`
    throw new AssertionError({ message: words })
  }
}
const bound = (value, isNot) =>
  Object.fromEntries(Object.keys(matchers).map((name) => [name, (...args) => check(value, name, isNot, args)]))
const later = (promise, isNot, take) =>
  Object.fromEntries(
    Object.keys(matchers).map((name) => [name, async (...args) => {
      const value = await take(promise)
      const body = name.startsWith('toThrow') ? () => { throw value } : value
      check(body, name, isNot, args)
    }]),
  )
const settled = async (promise) => await (typeof promise === 'function' ? promise() : promise)
const refused = async (promise) => {
  try {
    await settled(promise)
  } catch (error) {
    return error
  }
  throw new AssertionError({ message: 'it was to be rejected, and was not' })
}
const promised = (promise, take) => ({ ...later(promise, false, take), not: later(promise, true, take) })

export const expect = (value) => ({
  ...bound(value, false),
  not: bound(value, true),
  resolves: promised(value, settled),
  rejects: promised(value, refused),
})
// Each name is given once: a solution is loaded before its tests are, and would give theirs another meaning.
expect.extend = (more) => {
  for (const name of Object.keys(more)) {
    if (name in matchers) throw new Error(`there is a matcher ${name} already`)
    matchers[name] = more[name]
  }
}
expect.assertions = () => {}
expect.anything = () => ({ asymmetricMatch: (value) => value != null })
expect.any = (kind) => ({ asymmetricMatch: (value) => Object(value) instanceof kind })
expect.arrayContaining = (wanted) => ({
  asymmetricMatch: (value) => wanted.every((one) => value.some((other) => like(other, one))),
})
expect.objectContaining = (wanted) => ({ asymmetricMatch: (value) => subset(value, wanted) })
expect.stringContaining = (wanted) => ({ asymmetricMatch: (value) => String(value).includes(wanted) })
Object.freeze(expect)
