/** Returns a unique id. `crypto.randomUUID` exists only on HTTPS and localhost. */
export function freshId(): string {
  return crypto.randomUUID?.() ?? [...crypto.getRandomValues(new Uint32Array(4))].map((one) => one.toString(36)).join("-");
}
