import { createHash } from 'node:crypto'
import type { Duplex } from 'node:stream'

/** The server's side of RFC 6455: text messages, whole or in pieces, pings, and the end. */

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
const [MORE, TEXT, CLOSE, PING, PONG] = [0, 1, 8, 9, 10]

export const accept = (key: string): string => createHash('sha1').update(key + GUID).digest('base64')

export function frame(opcode: number, payload: Buffer): Buffer {
  const size = payload.length
  const long = size < 126 ? 0 : size < 65536 ? 2 : 8
  const head = Buffer.alloc(2 + long)
  head[0] = 0x80 | opcode
  head[1] = long === 0 ? size : long === 2 ? 126 : 127
  if (long === 2) head.writeUInt16BE(size, 2)
  if (long === 8) head.writeBigUInt64BE(BigInt(size), 2)
  return Buffer.concat([head, payload])
}

export class Connection {
  private left = Buffer.alloc(0)
  private pieces: Buffer[] = []

  private readonly stream: Duplex
  private readonly onText: (text: string) => void

  constructor(stream: Duplex, onText: (text: string) => void) {
    this.stream = stream
    this.onText = onText
    stream.on('data', (data: Buffer) => {
      this.left = Buffer.concat([this.left, data])
      while (this.take());
    })
  }

  send(text: string): void {
    if (this.stream.writable) this.stream.write(frame(TEXT, Buffer.from(text)))
  }

  /** Takes one frame off what has come; false when there is no whole one. */
  private take(): boolean {
    if (this.left.length < 2) return false
    const short = this.left[1]! & 0x7f
    const start = short < 126 ? 2 : short === 126 ? 4 : 10
    if (this.left.length < start + 4) return false
    const size =
      short < 126 ? short : short === 126 ? this.left.readUInt16BE(2) : Number(this.left.readBigUInt64BE(2))
    const end = start + 4 + size
    if (this.left.length < end) return false
    const mask = this.left.subarray(start, start + 4)
    const payload = Buffer.from(this.left.subarray(start + 4, end))
    for (let i = 0; i < size; i++) payload[i]! ^= mask[i % 4]!
    this.handle(this.left[0]! & 0x0f, (this.left[0]! & 0x80) !== 0, payload)
    this.left = this.left.subarray(end)
    return true
  }

  private handle(opcode: number, isLast: boolean, payload: Buffer): void {
    if (opcode === TEXT || opcode === MORE) {
      this.pieces.push(payload)
      if (!isLast) return
      const text = Buffer.concat(this.pieces).toString()
      this.pieces = []
      this.onText(text)
    } else if (opcode === PING) {
      this.stream.write(frame(PONG, payload))
    } else if (opcode === CLOSE) {
      this.stream.end(frame(CLOSE, payload))
    }
  }
}
