/** Reads the guest's console; guest-load.ts has the format of its lines. */

export class GuestConsole {
  readonly #silenceMs: number;
  /** Writer → its last commit that the store had when it was opened. */
  readonly #had = new Map<number, number>();
  /** Writer → its last commit that was acknowledged since. */
  readonly #named = new Map<number, number>();
  readonly #lines = new Set<string>();
  readonly faults: string[] = [];
  #rest = '';
  #count = 0;
  #waiting: { readonly line: string; readonly resolve: () => void } | undefined;
  #silence: NodeJS.Timeout | undefined;
  readonly #ended = Promise.withResolvers<never>();

  /** After `silenceMs` without output, all waits fail. */
  constructor(silenceMs: number) {
    this.#silenceMs = silenceMs;
    this.#ended.promise.catch(() => {});
    this.#listen();
  }

  /** Whether the store was opened and its whole content was printed. */
  get opened(): boolean {
    return this.#lines.has('load');
  }

  /** Takes text from the console. An incomplete last line is kept until it is complete. */
  take(text: string): void {
    this.#listen();
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop()!;
    for (const line of lines) this.#line(line.trimEnd());
  }

  #line(line: string): void {
    const [word, ...rest] = line.split(' ');
    if (word === 'a') {
      for (const commit of rest) this.#acknowledge(commit);
    } else if (word === 'have') {
      this.#had.set(Number(rest[0]), Number(rest[1]));
    } else if (word === 'fault' || word === 'dead') {
      this.faults.push(rest.join(' '));
      if (word === 'dead') this.end(rest.join(' '));
    } else {
      this.#lines.add(line);
      if (this.#waiting?.line === line) this.#waiting.resolve();
    }
  }

  #acknowledge(commit: string): void {
    const [, writer, n] = /^(\d+):(\d+)$/.exec(commit) ?? [];
    if (writer === undefined || n === undefined) this.faults.push(`not a commit: ${commit}`);
    else this.#named.set(Number(writer), Number(n));
    this.#count++;
  }

  #listen(): void {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => this.end(`no output for ${this.#silenceMs} ms`), this.#silenceMs);
  }

  /** Ends the console: all waits fail with `why`. */
  end(why: string): void {
    clearTimeout(this.#silence);
    const said = [...this.#lines].slice(-5).join(' | ');
    this.#ended.reject(new Error(`${why}; last: ${said} ${this.faults.slice(-3).join(' | ')}`));
  }

  /** Resolves when the guest has printed `line`. */
  until(line: string): Promise<void> {
    if (this.#lines.has(line)) return Promise.resolve();
    return this.orEnd(
      new Promise<void>((resolve) => {
        this.#waiting = { line, resolve };
      }),
    );
  }

  /** Settles like `promise`, but rejects when the console ends first. */
  orEnd(promise: Promise<void>): Promise<void> {
    return Promise.race([promise, this.#ended.promise]);
  }

  /**
   * How many of the commits in `named` (the last of each writer) are missing in the opened store.
   */
  missing(named: ReadonlyMap<number, number>): number {
    let missing = 0;
    for (const [writer, n] of named) missing += Math.max(0, n - (this.#had.get(writer) ?? 0));
    return missing;
  }

  /**
   * Adds the acknowledged commits to `named`, the commits that must never be missing from then on;
   * returns how many were added.
   */
  acknowledged(named: Map<number, number>): number {
    // A missing commit is counted once. A store that was not opened completely proves nothing.
    if (this.opened) for (const [writer, n] of this.#had) named.set(writer, n);
    for (const [writer, n] of this.#named) named.set(writer, n);
    return this.#count;
  }
}
