/** Handlers for what a founded cluster runs. */
import { MusterError } from '../base/errors.ts';
import type { ImageOfMachine } from '../cluster/change/roll/rolls.ts';
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
  readonly machines: readonly (Omit<RunningMachine, 'member' | 'macs'> & {
    readonly name: string;
    /** The image that it runs, and the one that it would boot. */
    readonly images?: Omit<ImageOfMachine, 'machine'>;
  })[];
}

/** Shows which versions a founded cluster may run, and which its machines report. */
export const showRunning: H = ({ params: { name = '' } }, { running, rolls }) => {
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
    machines: [...machines].map(([name, { member: _member, macs: _macs, ...one }]) => {
      const { machine: _, ...images } = rolls.image(name) ?? { machine: name, outdated: false };
      return { name, ...one, images };
    }),
  };
  return json(view);
};
