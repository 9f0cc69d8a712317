/** A name that nothing had before. Only a secure page has the browser's own. */
export function freshId(): string {
  return crypto.randomUUID?.() ?? [...crypto.getRandomValues(new Uint32Array(4))].map((one) => one.toString(36)).join("-");
}
