/** Answers to machines, as values. */

/** An answer whose body is in memory: a text, or octets of an installation. */
export interface Answer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string | Buffer;
  readonly headers?: readonly (readonly [string, string])[];
}

/** How long a machine waits before it asks again for something that is not ready. */
const RETRY_AFTER_SECONDS = 5;

export const TEXT = 'text/plain; charset=utf-8';

/** An answer in plain text; `body` gets a newline. */
export function textAnswer(status: number, body: string, headers: Answer['headers'] = []): Answer {
  return { status, contentType: TEXT, body: `${body}\n`, headers };
}

/** A boot script, 200. */
export function script(body: string): Answer {
  return { status: 200, contentType: TEXT, body };
}

/**
 * "Not ready": 503 with Retry-After. Ignition, cloud-init and iPXE ask again after 503, while a 404
 * or an empty 200 would end their boot.
 */
export function wait(why: string): Answer {
  return textAnswer(503, why, [['retry-after', String(RETRY_AFTER_SECONDS)]]);
}
