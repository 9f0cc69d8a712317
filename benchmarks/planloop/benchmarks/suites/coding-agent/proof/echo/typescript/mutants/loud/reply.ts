export interface Answer {
  body: Buffer
  type?: string
}

export async function reply(body: Buffer, type?: string): Promise<Answer> {
  return { body: Buffer.from(body.toString().toUpperCase()), type }
}
