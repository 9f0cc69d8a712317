export interface Answer {
  body: Buffer
  type?: string
}

export async function reply(body: Buffer): Promise<Answer> {
  return { body, type: 'text/plain' }
}
