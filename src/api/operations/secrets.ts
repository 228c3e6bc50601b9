/**
 * Secrets that operators give. A value comes in with PUT and never goes out: answers hold names,
 * sizes, times, who uses a value, and which machines have it.
 */
import { z } from 'zod';
import { MusterError } from '../../base/errors.ts';
import { fromSecrets } from '../../ignition/secrets.ts';
import type { Roster } from '../../machines/roster.ts';
import type { SecretUser, SecretUsers } from '../../machines/secret-users.ts';
import { type GivenSecrets, MAX_SECRET_OCTETS } from '../../pki/given-secrets.ts';
import { passwordHashIn } from '../../pki/password-hash.ts';
import type { RunningBootService } from '../../pxe/decide/boot-service.ts';
import type { LiveCatalog } from '../../resources/catalog.ts';
import { pathText } from '../../resources/document.ts';
import { listOf, type Parsed, part, raw as rawType, time } from '../contract/contract.ts';
import { readOctets } from '../handler.ts';
import { partOf } from '../listing.ts';
import { operation, reply } from '../operation.ts';
import { timestamp } from '../times.ts';

interface SecretDeps {
  readonly catalog: Pick<LiveCatalog, 'list' | 'recheck'>;
  readonly roster: Pick<Roster, 'get'>;
  readonly preview: Pick<RunningBootService, 'render'>;
  /** Secrets that operators give, and the documents that refer to them. */
  readonly secrets: {
    readonly given: GivenSecrets;
    readonly users: Pick<SecretUsers, 'mayUse' | 'of' | 'names'>;
  };
}

const secret = z
  .strictObject({
    kind: z.literal('Secret'),
    name: z.string(),
    keys: z.array(z.strictObject({ key: z.string(), octets: z.int(), since: time })),
    missing: z.array(z.string()),
    usedBy: z.array(z.strictObject({ document: z.string(), path: z.string(), key: z.string() })),
    machines: z.array(
      z.strictObject({
        machine: z.string(),
        key: z.string(),
        state: z.enum(['current', 'old', 'none']),
      }),
    ),
  })
  .meta({ id: 'Secret', description: 'A Secret without its values.' });
const removed = z.strictObject({
  kind: z.literal('Secret'),
  name: z.string(),
  key: z.string().optional(),
  action: z.literal('removed'),
});

export type SecretView = Parsed<z.output<typeof secret>>;
type SecretMachine = SecretView['machines'][number];

type Uses = ReadonlyMap<string, readonly Omit<SecretMachine, 'state'>[]>;

/** By Secret: the machines whose present configuration takes a value from it. */
function usesOf({ catalog, secrets, preview }: SecretDeps): Uses {
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

function namedBy(preview: SecretDeps['preview'], machine: string) {
  try {
    const { files, users } = fromSecrets(preview.render(machine).merged);
    return [...files, ...users].map(({ from }) => from);
  } catch (error) {
    // It has no configuration now, so it gets nothing from Secrets either.
    if (error instanceof MusterError) return [];
    throw error;
  }
}

function viewOf(name: string, deps: SecretDeps, uses: Uses): SecretView {
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

const placeOf = ({ document, path }: SecretUser): string => `${document} (${pathText(path)})`;

/** @throws {MusterError} E_SECRET while a document refers to it */
async function remove(name: string, key: string | undefined, { secrets }: Pick<SecretDeps, 'secrets'>) {
  const { given, users } = secrets;
  const used = users.of(name).filter((one) => key === undefined || one.key === key);
  if (used.length > 0 && given.get(name) !== undefined)
    throw new MusterError(
      'E_SECRET',
      `${key === undefined ? name : `${name}/${key}`} is used by ${used.map(placeOf).join(', ')}; change that first`,
    );
  await given.remove(name, key);
  return { kind: 'Secret' as const, name, ...(key !== undefined && { key }), action: 'removed' as const };
}

export const SECRETS = [
  operation(
    'GET /v1/secrets',
    {
      access: 'view',
      costly: true,
      summary: 'Lists Secrets: keys, sizes, times, who uses them, which machines have which. No values.',
      query: z.strictObject(part),
      answer: listOf('SecretList', secret),
    },
    ({ query }, deps: SecretDeps) => {
      const { given, users } = deps.secrets;
      const uses = usesOf(deps);
      const names = new Set([...given.list().map(({ name }) => name), ...users.names()]);
      const items = [...names].sort().map((name) => viewOf(name, deps, uses));
      return { kind: 'SecretList' as const, ...partOf(query, items, ({ name }) => name) };
    },
  ),
  operation(
    'GET /v1/secrets/:name',
    { access: 'view', costly: true, summary: 'The same for one Secret.', answer: secret },
    ({ params: { name } }, deps: SecretDeps) => {
      const { given, users } = deps.secrets;
      if (given.get(name) === undefined && users.of(name).length === 0)
        throw new MusterError('E_NOT_FOUND', `there is no Secret "${name}"; \`muster secret ls\` lists them`);
      return viewOf(name, deps, usesOf(deps));
    },
  ),
  operation(
    'PUT /v1/secrets/:name/:key',
    {
      access: 'administer',
      takes: 'role',
      summary: 'Writes the value of a key: the body, as it is. No route returns it.',
      rawBody: rawType('application/octet-stream', 'The value.'),
      answer: secret,
      statuses: [200, 201],
    },
    async (asked, deps: SecretDeps) => {
      const { name, key } = asked.params;
      const octets = await readOctets(asked, MAX_SECRET_OCTETS);
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
      const view = viewOf(name, deps, usesOf(deps));
      return reply(view, created ? 201 : 200);
    },
  ),
  operation(
    'DELETE /v1/secrets/:name/:key',
    {
      access: 'administer',
      takes: 'second',
      summary: 'Removes a key of a Secret; refused while a document refers to it.',
      answer: removed,
    },
    ({ params }, deps: Pick<SecretDeps, 'secrets'>) => remove(params.name, params.key, deps),
  ),
  operation(
    'DELETE /v1/secrets/:name',
    {
      access: 'administer',
      takes: 'second',
      summary: 'Removes a Secret; refused while a document refers to it.',
      answer: removed,
    },
    ({ params }, deps: Pick<SecretDeps, 'secrets'>) => remove(params.name, undefined, deps),
  ),
] as const;
