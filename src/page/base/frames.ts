/** Reads a stream of server-sent events (WHATWG HTML, section 9.2). Pure. */

export interface Frame {
  readonly id?: string;
  readonly event: string;
  readonly data: string;
}

/** Splits a stream that comes in pieces. Lines may end with LF or CRLF. */
export class Frames {
  #rest = '';
  #id: string | undefined;

  /** The frames that this piece completes; comments and frames without data are left out. */
  push(piece: string): readonly Frame[] {
    const blocks = (this.#rest + piece).replaceAll('\r\n', '\n').split('\n\n');
    this.#rest = blocks.pop() ?? '';
    return blocks.flatMap((block) => this.#read(block) ?? []);
  }

  #read(block: string): Frame | undefined {
    let event = 'message';
    const data: string[] = [];
    for (const line of block.split('\n')) {
      const colon = line.indexOf(':');
      if (colon === 0) continue;
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
      if (field === 'event') event = value;
      else if (field === 'data') data.push(value);
      else if (field === 'id') this.#id = value;
    }
    if (data.length === 0) return undefined;
    return { event, data: data.join('\n'), ...(this.#id !== undefined && { id: this.#id }) };
  }
}
