/** Handlers that bring CAs of operators, and that seal the store with another vault key. */
import { MusterError } from '../base/errors.ts';
import { parsed } from '../base/foreign-json.ts';
import { readImported } from '../pki/imported.ts';
import type { VaultKeys } from '../pki/reseal.ts';
import { takeAuthority } from '../pki/take-authority.ts';
import { IMPORTED_KEYSETS, PKI } from './contract/pki.ts';
import type { ApiDeps } from './deps.ts';
import { flag, type Handler, json, readText } from './handler.ts';
import { renewCertificates } from './trust.ts';

type H = Handler<ApiDeps>;

/** What `POST /v1/pki/:cluster/import` answers with. */
interface Imported {
  readonly cluster: string;
  readonly keyset: string;
  readonly generation: string;
  /** It signs at once, because the keyset had signed nothing yet. */
  readonly signs: boolean;
  readonly notes: readonly string[];
}

/**
 * Takes a CA of an operator for a cluster, whose other keys are made now if it has none.
 *
 * @throws {MusterError} E_USAGE for a body of another form, E_NOT_FOUND without such a Cluster,
 *   E_CA_IMPORT when the CA is not taken, E_KEYSET when it is there already
 */
export const importAuthority: H = async (request, deps) => {
  const read = PKI['POST /v1/pki/:cluster/import'].body.safeParse(parsed(await readText(request)));
  if (!read.success)
    throw new MusterError(
      'E_USAGE',
      `the body is {"keyset", "certificate", "key"}; keyset is one of ${IMPORTED_KEYSETS.join(', ')}`,
    );
  const cluster = request.params.cluster ?? '';
  if (deps.catalog.get('Cluster', cluster) === undefined)
    throw new MusterError(
      'E_NOT_FOUND',
      `there is no Cluster "${cluster}"; \`muster get clusters\` lists them`,
    );
  const { keyset, certificate, key } = read.data;
  const { generation, notes } = readImported(certificate, key, deps.clock.now());
  await deps.pki.found(cluster, deps.resolved(cluster)?.keys);
  const { signs } = await takeAuthority(deps, cluster, { name: keyset, authority: generation });
  deps.events.record({
    kind: 'pki.imported',
    subject: `Cluster/${cluster}`,
    fields: { keyset, generation: generation.id, signs },
  });
  return json({ cluster, keyset, generation: generation.id, signs, notes } satisfies Imported);
};

/** What `POST /v1/pki/reseal` answers with. */
interface Resealed extends VaultKeys {
  /** How many records were sealed again by this call. */
  readonly written: number;
  /** Keys that nothing needs any more. */
  readonly unneeded: readonly string[];
}

/** Seals the store with the first key of the vault's file; with `?dryRun=true`, only counts. */
export const resealStore: H = async (request, { pki, resealSnapshots, events }) => {
  const dryRun = flag(request.query, 'dryRun') || flag(request.query, 'dry-run');
  const written = dryRun ? 0 : (await pki.rewrap()) + (await resealSnapshots());
  const keys = await pki.vaultKeys();
  const unneeded = dryRun
    ? []
    : Object.entries(keys.records).flatMap(([id, count]) => (count === 0 && id !== keys.primary ? [id] : []));
  if (written > 0) events.record({ kind: 'pki.resealed', subject: 'muster', fields: { written } });
  return json({ ...keys, written, unneeded } satisfies Resealed);
};

/** Routes that change keys and certificates, besides rotations. */
export const AUTHORITY_HANDLERS = {
  'POST /v1/pki/reseal': resealStore,
  'POST /v1/pki/:cluster/import': importAuthority,
  'POST /v1/pki/:cluster/renew': renewCertificates,
} as const;
