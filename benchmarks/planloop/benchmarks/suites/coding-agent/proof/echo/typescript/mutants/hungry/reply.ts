export interface Answer {
  body: Buffer
  type?: string
}

export async function reply(body: Buffer, type?: string): Promise<Answer> {
  return { body: body.length ? body : Buffer.from('nothing to echo'), type }
}
