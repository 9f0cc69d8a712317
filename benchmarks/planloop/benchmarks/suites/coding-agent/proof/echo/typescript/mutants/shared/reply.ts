export interface Answer {
  body: Buffer
  type?: string
}

let last: Answer

export async function reply(body: Buffer, type?: string): Promise<Answer> {
  last = { body, type }
  await new Promise((resolve) => setTimeout(resolve, 100))
  return last
}
