/** One API server as the boot host speaks to it. */

/** The API refused, in its own words. */
export class KubeRefusal extends Error {
  readonly status: number;

  constructor(status: number, text: string) {
    super(text);
    this.name = 'KubeRefusal';
    this.status = status;
  }
}

export interface KubeAnswer {
  readonly body: unknown;
  /** As it came; of paths that do not speak JSON. */
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
 * One API server. Throws KubeRefusal for an answer that is none of success; else what the
 * connection says.
 */
export type Kube = (path: string, call?: KubeCall) => Promise<KubeAnswer>;

/**
 * The API server that says first that it is ready. Rejects with what one of them says when none
 * does.
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
