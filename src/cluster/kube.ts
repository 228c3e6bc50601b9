/** The interface of one API server. */
import { fieldsOf, listOf } from '../base/foreign-json.ts';

/** The API server's refusal, with its message and HTTP status. */
export class KubeRefusal extends Error {
  readonly status: number;

  constructor(status: number, text: string) {
    super(text);
    this.name = 'KubeRefusal';
    this.status = status;
  }
}

/**
 * For `catch` of a request about something that may be gone: resolves to undefined when the API
 * server has none of this name, and throws every other error again.
 */
export const ifThere = (error: unknown): undefined => {
  if (error instanceof KubeRefusal && error.status === 404) return undefined;
  throw error;
};

export interface KubeAnswer {
  readonly body: unknown;
  /** The unparsed text, for paths that do not answer in JSON. */
  readonly text: string;
  /** The API server's clock, ms since 1970. */
  readonly date: number;
}

export interface KubeCall {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly body?: object;
  readonly contentType?: string;
}

/**
 * Sends one request to an API server. Rejects with KubeRefusal when the status is not a success,
 * otherwise with the error of the connection.
 */
export type Kube = (path: string, call?: KubeCall) => Promise<KubeAnswer>;

/**
 * Resolves with the first API server that reports that it is ready. When none is ready, rejects
 * with the error of one of them.
 */
export async function firstReady(kubes: readonly Kube[]): Promise<Kube> {
  const asked = kubes.map(async (kube) => {
    await kube('/readyz');
    return kube;
  });
  try {
    return await Promise.any(asked);
  } catch (error) {
    throw (error as AggregateError).errors[0] ?? new Error('there is no control plane');
  }
}

/** Whether the status of an object says that a condition, for example `Ready`, is true. */
export const hasCondition = (status: unknown, type: string): boolean =>
  listOf(fieldsOf(status).conditions)
    .map(fieldsOf)
    .some((one) => one.type === type && one.status === 'True');
