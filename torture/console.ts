/** What the guest says on its console (guest-load.ts has the lines), as it comes. */

export class GuestConsole {
  readonly #silenceMs: number;
  /** Last commit of each writer that the store held when it was opened. */
  readonly #had = new Map<number, number>();
  /** Last commit of each writer that was acknowledged since. */
  readonly #named = new Map<number, number>();
  readonly #lines = new Set<string>();
  readonly faults: string[] = [];
  #rest = '';
  #count = 0;
  #waiting: { readonly line: string; readonly resolve: () => void } | undefined;
  #silence: NodeJS.Timeout | undefined;
  readonly #ended = Promise.withResolvers<never>();

  /** `silenceMs`: after so long without a word, whoever waits gets an error. */
  constructor(silenceMs: number) {
    this.#silenceMs = silenceMs;
    this.#ended.promise.catch(() => {});
    this.#listen();
  }

  /** Whether the store was opened and all that it holds was told. */
  get opened(): boolean {
    return this.#lines.has('load');
  }

  /**
   * Text from the console; what follows the last line end is kept until its line is whole, and
   * never counts if it is not.
   */
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
    this.#silence = setTimeout(() => this.end(`not a word for ${this.#silenceMs} ms`), this.#silenceMs);
  }

  /** Nothing more comes; whoever waits gets an error with `why`. */
  end(why: string): void {
    clearTimeout(this.#silence);
    const said = [...this.#lines].slice(-5).join(' | ');
    this.#ended.reject(new Error(`${why}; last: ${said} ${this.faults.slice(-3).join(' | ')}`));
  }

  /** Resolves when the guest has said `line`. */
  until(line: string): Promise<void> {
    if (this.#lines.has(line)) return Promise.resolve();
    return this.orEnd(
      new Promise<void>((resolve) => {
        this.#waiting = { line, resolve };
      }),
    );
  }

  /** As `promise`, or an error when the console ends before. */
  orEnd(promise: Promise<void>): Promise<void> {
    return Promise.race([promise, this.#ended.promise]);
  }

  /** How many of the commits in `named` (the last of each writer) the opened store did not hold. */
  missing(named: ReadonlyMap<number, number>): number {
    let missing = 0;
    for (const [writer, n] of named) missing += Math.max(0, n - (this.#had.get(writer) ?? 0));
    return missing;
  }

  /**
   * How many commits were acknowledged; adds them to `named`, which afterwards is what must never
   * be missing.
   */
  acknowledged(named: Map<number, number>): number {
    // What was missing is counted once. A store that was not opened to the end told nothing for
    // certain.
    if (this.opened) for (const [writer, n] of this.#had) named.set(writer, n);
    for (const [writer, n] of this.#named) named.set(writer, n);
    return this.#count;
  }
}
