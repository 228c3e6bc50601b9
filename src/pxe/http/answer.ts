/** Answers to machines, as values. */

/** A short answer. */
export interface Answer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
  readonly headers?: readonly (readonly [string, string])[];
}

/** How long a machine waits before it asks again for what is not ready. */
export const RETRY_AFTER_SECONDS = 5;

export const TEXT = 'text/plain; charset=utf-8';

export function textAnswer(status: number, body: string, headers: Answer['headers'] = []): Answer {
  return { status, contentType: TEXT, body: `${body}\n`, headers };
}

export function script(body: string): Answer {
  return { status: 200, contentType: TEXT, body };
}

/**
 * "Not yet": Ignition and cloud-init come again after 503, while anything below 500 ends their boot
 * (architecture, rule 5).
 */
export function wait(why: string): Answer {
  return textAnswer(503, why, [['retry-after', String(RETRY_AFTER_SECONDS)]]);
}
