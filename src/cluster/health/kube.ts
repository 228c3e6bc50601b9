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

/** One API server. Throws KubeRefusal for an answer that is none of success; else what the connection says. */
export type Kube = (path: string, call?: KubeCall) => Promise<KubeAnswer>;
