/** Sends one request to the server of a Webhook. */

/** A body and its headers, for one URL. */
export interface Posted {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/**
 * Sends a request, and returns the status of the answer. The content of the answer is not read.
 * Rejects when no answer came before `signal` aborted.
 */
export async function post({ url, headers, body }: Posted, signal: AbortSignal): Promise<number> {
  const response = await fetch(url, { method: 'POST', headers, body, signal, redirect: 'manual' });
  await response.body?.cancel();
  return response.status;
}
