/** The verbs `muster pki rotate`, `muster pki distrust` and `muster pki accept`. */
import { MusterError } from '../../base/errors.ts';
import { breakable, breaksOf } from '../../pki/keysets.ts';
import { MUSTER_SCOPE } from '../../store/keys.ts';
import { type BeginOptions, begin, shownName } from '../change/change.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';

interface RotateOptions extends BeginOptions {
  /** Absent: Muster's own keys. */
  readonly cluster?: string;
  readonly pauseBefore?: readonly string[];
  readonly without?: readonly string[];
  readonly leave?: readonly string[];
}

/** The request for a rotation. */
const requestOf = (
  cluster: string,
  keysets: readonly string[],
  { pauseBefore, without, leave }: RotateOptions,
) => {
  const common = { keysets, ...(pauseBefore && { pauseBefore }), ...(without && { without }) };
  return cluster === MUSTER_SCOPE
    ? { kind: 'own-rotation' as const, ...common }
    : { kind: 'rotation' as const, ...common, ...(leave && { leave }) };
};

/**
 * `muster pki rotate`: begins a rotation, or shows what it would do.
 *
 * @throws {MusterError} E_USAGE for `--leave` without a cluster, and what the server answers
 */
export async function rotate(keysets: readonly string[], options: RotateOptions, io: Io): Promise<number> {
  const { cluster = MUSTER_SCOPE, leave } = options;
  if (leave && cluster === MUSTER_SCOPE)
    throw new MusterError('E_USAGE', "nothing but agents depends on Muster's own keys: use --without");
  return begin(cluster, requestOf(cluster, keysets, options), options, io);
}

interface DistrustOptions extends ServerOptions {
  /** Absent: Muster's own keys. */
  readonly cluster?: string;
  readonly now?: boolean;
  readonly confirm?: string;
  readonly without?: readonly string[];
}

/**
 * `muster pki distrust`: ends the old keys at once, because they are in the wrong hands.
 *
 * @throws {MusterError} E_USAGE without `--now`, and without `--confirm NAME`: then it prints what
 *   would restart and break
 */
export async function distrust(
  keysets: readonly string[],
  options: DistrustOptions,
  io: Io,
): Promise<number> {
  const { cluster = MUSTER_SCOPE, now = false, confirm } = options;
  const name = shownName(cluster);
  if (!now)
    throw new MusterError(
      'E_USAGE',
      'a rotation in steps is `muster pki rotate`; `--now` ends the old keys at once',
    );
  const request = { ...requestOf(cluster, keysets, options), emergency: cluster };
  if (confirm === name) return begin(cluster, request, options, io);
  await begin(cluster, request, { ...options, dryRun: true }, io);
  const all = breakable(cluster === MUSTER_SCOPE ? 'muster' : 'cluster');
  for (const one of keysets.includes('all') ? all : keysets)
    io.out(`${one} cuts off: ${breaksOf(one) ?? 'what uses it'}\n`);
  throw new MusterError(
    'E_USAGE',
    `this ends the old keys at once, and cannot be taken back; if that is right, add --confirm ${name}`,
  );
}

/**
 * `muster pki accept`: lets the keys of a restored store count, although machines have later ones.
 *
 * @throws {MusterError} E_USAGE without `--confirm CLUSTER`, and what the server answers
 */
export async function accept(
  cluster: string,
  { confirm = '', ...options }: ServerOptions & { readonly confirm?: string },
  io: Io,
): Promise<number> {
  await openClient(options, io).ask('POST /v1/pki/:cluster/accept', {
    params: { cluster },
    body: { confirm },
  });
  io.out(`the keys of this store count for ${cluster}; machines get them with their next polls\n`);
  return EXIT.ok;
}
