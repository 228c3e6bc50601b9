/** Reads bodies that others send, none longer than it may be. Pure. */

/** All octets; undefined when there are more than `limit`, of which the rest is not read. */
export async function bounded(parts: AsyncIterable<Uint8Array>, limit: number): Promise<Buffer | undefined> {
  const all: Uint8Array[] = [];
  let octets = 0;
  for await (const part of parts) {
    octets += part.length;
    if (octets > limit) return undefined;
    all.push(part);
  }
  return Buffer.concat(all);
}
