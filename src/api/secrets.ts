/**
 * Handlers for Secrets that operators give. A value comes in with PUT and never goes out: answers
 * hold names, sizes, times, who uses a value, and which machines have it.
 */
import { MusterError } from '../base/errors.ts';
import { fromSecrets } from '../ignition/secrets.ts';
import type { SecretUser } from '../machines/secret-users.ts';
import { MAX_SECRET_OCTETS } from '../pki/given-secrets.ts';
import { passwordHashIn } from '../pki/password-hash.ts';
import { pathText } from '../resources/document.ts';
import type { ApiDeps } from './deps.ts';
import { type Handler, json, readOctets } from './handler.ts';
import { partOf } from './listing.ts';
import { type Timestamp, timestamp } from './times.ts';

type H = Handler<ApiDeps>;

/**
 * A machine that gets a value: `current` has it, `old` has an earlier one, `none` has not got any.
 */
export interface SecretMachine {
  readonly machine: string;
  readonly key: string;
  readonly state: 'current' | 'old' | 'none';
}

/** A Secret as the API shows it. */
export interface SecretView {
  readonly kind: 'Secret';
  readonly name: string;
  readonly keys: readonly { readonly key: string; readonly octets: number; readonly since: Timestamp }[];
  /** Keys that documents refer to and that have no value. */
  readonly missing: readonly string[];
  /** The fields of documents that refer to it. */
  readonly usedBy: readonly { readonly document: string; readonly path: string; readonly key: string }[];
  readonly machines: readonly SecretMachine[];
}

type Uses = ReadonlyMap<string, readonly Omit<SecretMachine, 'state'>[]>;

/** By Secret: the machines whose present configuration takes a value from it. */
function usesOf({ catalog, secrets, preview }: ApiDeps): Uses {
  const found = new Map<string, Omit<SecretMachine, 'state'>[]>();
  for (const { document } of catalog.list('Machine')) {
    const machine = document.metadata.name;
    if (!secrets.users.mayUse(machine)) continue;
    for (const { secret, key } of namedBy(preview, machine)) {
      const uses = found.get(secret) ?? [];
      found.set(secret, uses);
      if (!uses.some((one) => one.machine === machine && one.key === key)) uses.push({ machine, key });
    }
  }
  return found;
}

function namedBy(preview: ApiDeps['preview'], machine: string) {
  try {
    const { files, users } = fromSecrets(preview.render(machine).merged);
    return [...files, ...users].map(({ from }) => from);
  } catch (error) {
    // It has no configuration now, so it gets nothing from Secrets either.
    if (error instanceof MusterError) return [];
    throw error;
  }
}

function viewOf(name: string, deps: ApiDeps, uses: Uses): SecretView {
  const { secrets, roster } = deps;
  const keys = secrets.given.get(name)?.keys ?? [];
  const used = secrets.users.of(name);
  const stateOf = (machine: string, key: string): SecretMachine['state'] => {
    const tag = roster.get(machine)?.status.agent?.secrets?.[`${name}:${key}`];
    if (tag === undefined) return 'none';
    return tag === secrets.given.tag(machine, name, key) ? 'current' : 'old';
  };
  return {
    kind: 'Secret',
    name,
    keys: keys.map(({ key, octets, since }) => ({ key, octets, since: timestamp(since) })),
    missing: [...new Set(used.map(({ key }) => key))].filter((key) => !keys.some((one) => one.key === key)),
    usedBy: used.map(({ document, path, key }) => ({ document, path: pathText(path), key })),
    machines: (uses.get(name) ?? []).map((one) => ({ ...one, state: stateOf(one.machine, one.key) })),
  };
}

export const listSecrets: H = ({ query }, deps) => {
  const { given, users } = deps.secrets;
  const uses = usesOf(deps);
  const names = new Set([...given.list().map(({ name }) => name), ...users.names()]);
  const items = [...names].sort().map((name) => viewOf(name, deps, uses));
  return json({ kind: 'SecretList', ...partOf(query, items, ({ name }) => name) });
};

export const showSecret: H = ({ params }, deps) => {
  const { name = '' } = params;
  const { given, users } = deps.secrets;
  if (given.get(name) === undefined && users.of(name).length === 0)
    throw new MusterError('E_NOT_FOUND', `there is no Secret "${name}"; \`muster secret ls\` lists them`);
  return json(viewOf(name, deps, usesOf(deps)));
};

export const putSecret: H = async (request, deps) => {
  const { name = '', key = '' } = request.params;
  const octets = await readOctets(request, MAX_SECRET_OCTETS);
  const { given, users } = deps.secrets;
  const asPassword = users.of(name).find((one) => one.key === key && one.use === 'password');
  if (asPassword !== undefined && passwordHashIn(octets) === undefined)
    throw new MusterError(
      'E_SECRET',
      `${placeOf(asPassword)} takes ${name}/${key} as a password hash, and this is none; write what \`openssl passwd -6\` prints, or use --generate password-hash`,
    );
  const created = given.get(name)?.keys.every((one) => one.key !== key) ?? true;
  await given.put(name, key, octets);
  deps.catalog.recheck();
  return json(viewOf(name, deps, usesOf(deps)), created ? 201 : 200, { 'cache-control': 'no-store' });
};

const placeOf = ({ document, path }: SecretUser): string => `${document} (${pathText(path)})`;

export const removeSecret: H = async ({ params }, deps) => {
  const { name = '', key } = params;
  const { given, users } = deps.secrets;
  const used = users.of(name).filter((one) => key === undefined || one.key === key);
  if (used.length > 0 && given.get(name) !== undefined)
    throw new MusterError(
      'E_SECRET',
      `${key === undefined ? name : `${name}/${key}`} is used by ${used.map(placeOf).join(', ')}; change that first`,
    );
  await given.remove(name, key);
  return json({ kind: 'Secret', name, ...(key !== undefined && { key }), action: 'removed' });
};
