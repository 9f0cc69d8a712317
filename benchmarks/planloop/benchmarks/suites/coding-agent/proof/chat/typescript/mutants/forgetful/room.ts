export interface Client {
  send(text: string): void
}

const clients = new Set<Client>()
const said: string[] = []

export function join(client: Client): void {
  clients.add(client)
  for (const text of said) client.send(text)
}

export function leave(client: Client): void {
  clients.delete(client)
}

export function say(client: Client, text: string): void {
  for (const one of clients) one.send(text)
}
