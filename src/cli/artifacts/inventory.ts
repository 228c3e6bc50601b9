/** The verbs `muster artifacts ls`, `verify` and `rm`. */
import type { Answer } from '../../api/operations.ts';
import { type Artifact, artifactName, filesOf } from '../../artifacts/book.ts';
import { MusterError } from '../../base/errors.ts';
import { type ApiClient, openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { type Column, jsonText, lookOf, sizeText, tableText, yamlText } from '../output.ts';

interface Common extends ServerOptions {}

const clientOf = (options: Common, io: Io): ApiClient => openClient(options, io);

type ArtifactView = Answer<'GET /v1/artifacts'>['items'][number] & { readonly artifact: Artifact };

/** All artifacts of the server. */
export const artifactsOf = async (client: ApiClient): Promise<readonly ArtifactView[]> =>
  (await client.ask('GET /v1/artifacts')).items as readonly ArtifactView[];

function shownName(artifact: Artifact): string {
  switch (artifact.kind) {
    case 'image':
      return artifact.reference;
    case 'binary':
      return `${artifact.name} ${artifact.version} ${artifact.arch}`;
    case 'manifest':
      return artifact.addon;
  }
}

const COLUMNS: readonly Column<ArtifactView>[] = [
  { heading: 'KIND', cell: ({ artifact }) => artifact.kind },
  {
    heading: 'NAME',
    cell: ({ artifact }) => shownName(artifact),
  },
  { heading: 'SIZE', cell: ({ size }) => sizeText(size) },
  {
    heading: 'DIGEST',
    cell: ({ artifact }) =>
      (artifact.kind === 'image' ? artifact.digest : `sha256:${artifact.sha256}`).slice(0, 19),
  },
  {
    heading: 'STATE',
    cell: ({ missing }) => (missing.length === 0 ? 'complete' : `${missing.length} missing`),
  },
];

/** `muster artifacts ls`: prints all artifacts, and whether their files are on the server. */
export async function list(options: Common & { readonly output?: string }, io: Io): Promise<number> {
  const items = await artifactsOf(clientOf(options, io));
  if (options.output === 'json') io.out(jsonText(items));
  else if (options.output === 'yaml') io.out(yamlText(items));
  else if (options.output === 'name') for (const { name } of items) io.out(`${name}\n`);
  else if (items.length === 0) io.err('no artifacts; `muster artifacts pull` or `import` brings them\n');
  else io.out(tableText(COLUMNS, items, lookOf(io)));
  return EXIT.ok;
}

/**
 * The artifacts of these names, which are those of `ls -o name` or image references.
 *
 * @throws {MusterError} E_NOT_FOUND when there is no artifact of a name.
 */
function chosen(items: readonly ArtifactView[], names: readonly string[]): readonly ArtifactView[] {
  if (names.length === 0) return items;
  return names.flatMap((name) => {
    const found = items.filter((item) => item.name === name || item.name === `image/${name}`);
    if (found.length === 0)
      throw new MusterError(
        'E_NOT_FOUND',
        `there is no artifact "${name}"; \`muster artifacts ls\` lists them`,
      );
    return found;
  });
}

/**
 * `muster artifacts verify`: makes the server read every file again. Exit code 1 when one is
 * missing or has changed.
 */
export async function verify(names: readonly string[], options: Common, io: Io): Promise<number> {
  const client = clientOf(options, io);
  const states = new Map<string, string>();
  let good = true;
  const all = chosen(await artifactsOf(client), names);
  if (all.length === 0) io.err('no artifacts; `muster artifacts pull` or `import` brings them\n');
  for (const { name, artifact } of all) {
    const wrong: string[] = [];
    for (const { sha256 } of filesOf(artifact)) {
      const state = states.get(sha256) ?? (await stateOf(client, sha256));
      states.set(sha256, state);
      if (state !== 'ok') wrong.push(`${sha256.slice(0, 12)} ${state}`);
    }
    good &&= wrong.length === 0;
    io.out(`${name} ${wrong.length === 0 ? 'ok' : `${wrong.join(', ')}; add it again`}\n`);
  }
  return good ? EXIT.ok : EXIT.failure;
}

async function stateOf(client: ApiClient, sha256: string): Promise<string> {
  try {
    return (await client.ask('POST /v1/assets/:sha256/verify', { params: { sha256 } }, { works: true }))
      .state;
  } catch (error) {
    if (error instanceof MusterError && error.code === 'E_NOT_FOUND') return 'missing';
    throw error;
  }
}

/** `muster artifacts rm`: removes artifacts, and those of their files that nothing else needs. */
export async function remove(names: readonly string[], options: Common, io: Io): Promise<number> {
  const client = clientOf(options, io);
  for (const { artifact } of chosen(await artifactsOf(client), names)) {
    const name = artifactName(artifact);
    const { unused } = await client.ask('DELETE /v1/artifacts', {
      query: { name },
    });
    io.out(`${name} deleted\n`);
    for (const sha256 of unused)
      await client.ask('DELETE /v1/assets/:sha256', { params: { sha256 } }).catch((error: unknown) => {
        // An OS image may need the same file, and another command may have removed it.
        if (!(error instanceof MusterError) || !['E_ASSET_USED', 'E_NOT_FOUND'].includes(error.code))
          throw error;
      });
  }
  return EXIT.ok;
}
