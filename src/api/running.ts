/** Handlers for what a founded cluster runs. */
import { MusterError } from '../base/errors.ts';
import type { RunningMachine } from '../cluster/spec/release.ts';
import type { ApiDeps } from './deps.ts';
import { type Handler, json } from './handler.ts';

type H = Handler<ApiDeps>;

/** What a founded cluster runs, as the API shows it. */
export interface RunningView {
  readonly cluster: string;
  /** The Kubernetes version that its machines may have. */
  readonly version: string;
  /** Program → that version of it. */
  readonly versions: Readonly<Record<string, string>>;
  readonly machines: readonly (RunningMachine & { readonly name: string })[];
}

/** Shows which versions a founded cluster may run, and which its machines report. */
export const showRunning: H = ({ params: { name = '' } }, { running }) => {
  const known = running.of(name);
  if (known === undefined)
    throw new MusterError(
      'E_NOT_FOUND',
      `no machine of a founded cluster "${name}" has polled yet; \`muster cluster founding ${name}\` shows how far it is`,
    );
  const { release, machines } = known;
  const view: RunningView = {
    cluster: name,
    version: release.version,
    versions: release.versions,
    machines: [...machines].map(([machine, one]) => ({ name: machine, ...one })),
  };
  return json(view);
};
