/**
 * `muster addon`: lists the catalogue and the add-ons of a cluster, and prints entries for a
 * Cluster document.
 */
import { createHash } from 'node:crypto';
import type { AddonView } from '../../api/operations/clusters.ts';
import { MusterError } from '../../base/errors.ts';
import { didYouMean } from '../../base/suggest.ts';
import { type Plain, yamlText } from '../../base/yaml-text.ts';
import { renderAddon } from '../../cluster/objects/addons/addon.ts';
import { CATALOGUE, type CatalogueEntry } from '../../cluster/objects/addons/catalogue.ts';
import { MAX_MANIFEST_BYTES } from '../../cluster/objects/addons/manifest.ts';
import { addonsOf } from '../artifacts/plan.ts';
import { mirrors } from '../artifacts/pull.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { readAll, sourceOf } from '../image/sources.files.ts';
import { EXIT, type Io } from '../io.ts';
import { yamlText as anyYamlText, type Column, formatOf, jsonText, lookOf, tableText } from '../output.ts';

interface ListOptions extends ServerOptions {
  readonly output?: string;
}

interface Known extends CatalogueEntry {
  readonly name: string;
}

const CATALOGUE_COLUMNS: readonly Column<Known>[] = [
  { heading: 'NAME', cell: ({ name }) => name },
  { heading: 'VERSION', cell: ({ version }) => version },
  { heading: 'FORM', cell: formOf },
  { heading: 'ABOUT', cell: ({ about }) => about },
];

function formOf({ manifests, objects }: CatalogueEntry): string {
  if (manifests) return "publisher's manifest";
  return objects ? 'objects by Muster' : 'Helm chart that you render';
}

const CLUSTER_COLUMNS: readonly Column<AddonView>[] = [
  { heading: 'NAME', cell: ({ name }) => name },
  { heading: 'STATE', cell: ({ state }) => state },
  { heading: 'OBJECTS', cell: ({ objects }) => objects },
  { heading: 'IMAGES', cell: ({ images }) => images?.length },
  { heading: 'DETAIL', cell: ({ detail }) => detail },
];

/**
 * `muster addon ls`: prints the catalogue, or the add-ons of `cluster`. Exit code 1 when an add-on
 * cannot be applied.
 */
export async function list(cluster: string | undefined, options: ListOptions, io: Io): Promise<number> {
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  const all: readonly Known[] = Object.entries(CATALOGUE).map(([name, entry]) => ({ name, ...entry }));
  const addons = cluster === undefined ? [] : await addonsOf(openClient(options, io), cluster);
  const items =
    cluster === undefined
      ? all.map(({ name, about, version, home }) => ({ name, version, about, home }))
      : addons;
  if (format === 'json') io.out(jsonText(items));
  else if (format === 'yaml') io.out(anyYamlText(items));
  else if (cluster === undefined) io.out(tableText(CATALOGUE_COLUMNS, all, lookOf(io)));
  else if (addons.length === 0) io.err(`${cluster} has no add-ons\n`);
  else io.out(tableText(CLUSTER_COLUMNS, addons, lookOf(io)));
  return addons.every(({ state }) => state === 'ready') ? EXIT.ok : EXIT.failure;
}

/**
 * Finds the entry of the catalogue.
 *
 * @throws {MusterError} E_NOT_FOUND when the catalogue has no add-on of this name.
 */
function entryOf(name: string): CatalogueEntry {
  if (Object.hasOwn(CATALOGUE, name)) return CATALOGUE[name]!;
  throw new MusterError(
    'E_NOT_FOUND',
    `the catalogue has no "${name}"${didYouMean(name, Object.keys(CATALOGUE))}; \`muster addon ls\` lists it, and any other manifest is pinned by its URL`,
  );
}

/**
 * The text to write below `addons` of a Cluster; hashes that are not known are left for the
 * operator to fill in.
 */
function entryText(
  name: string,
  { objects, patches, images }: CatalogueEntry,
  version: string,
  manifests: readonly { readonly url: string; readonly sha256: string }[],
): string {
  const value = {
    name,
    ...(manifests.length > 0 && { manifests }),
    ...(objects && { objects: objects(version) }),
    ...(patches && { patches }),
    ...(images && { images }),
  };
  return yamlText([value as unknown as Plain]);
}

const NOT_PINNED = 'unknown: pin it';

/**
 * `muster addon show`: prints the entry of the Cluster document for one add-on, without its hashes.
 */
export function show(name: string, options: { readonly release?: string }, io: Io): number {
  const entry = entryOf(name);
  const version = (options.release ?? entry.version).replace(/^v/, '');
  const notes = [`${name} ${version}: ${entry.about}`, entry.home, ...(entry.note ? [entry.note] : [])];
  if (version !== entry.version)
    notes.push(`The catalogue was written for ${entry.version}; the URLs of ${version} may differ.`);
  io.out(notes.map((line) => `# ${line}\n`).join(''));
  if (entry.rendered) {
    for (const command of entry.rendered(version)) io.out(`#   ${command} > ${name}.yaml\n`);
    io.out(`#   muster artifacts import --manifest ${name}=${name}.yaml     # prints the SHA-256\n`);
    io.out(`- name: ${name}\n  manifests:\n    - sha256: "${NOT_PINNED}"\n`);
    return EXIT.ok;
  }
  const manifests = (entry.manifests?.(version) ?? []).map((url) => ({ url, sha256: NOT_PINNED }));
  io.out(entryText(name, entry, version, manifests));
  return EXIT.ok;
}

interface PinOptions {
  readonly release?: string;
  readonly as?: string;
  readonly mirror?: readonly string[];
}

/**
 * `muster addon pin`: fetches the files of a catalogue entry, or of URLs, and prints the entry with
 * their hashes.
 *
 * @throws {MusterError} E_USAGE for more than one name, for names mixed with URLs, and for an entry
 *   without files; and what fetching throws.
 */
export async function pin(what: readonly string[], options: PinOptions, io: Io): Promise<number> {
  const isUrl = (text: string) => /^(https?|file):\/\//.test(text);
  const [first = ''] = what;
  const named = !what.some(isUrl);
  if (named && what.length > 1) throw new MusterError('E_USAGE', 'pin one add-on of the catalogue, or URLs');
  if (!named && !what.every(isUrl))
    throw new MusterError('E_USAGE', 'name one add-on of the catalogue, or URLs, but not both');
  const entry: CatalogueEntry = named ? entryOf(first) : { about: '', version: '', home: '' };
  const version = (options.release ?? entry.version).replace(/^v/, '');
  const urls = named ? (entry.manifests?.(version) ?? []) : what;
  if (urls.length === 0)
    throw new MusterError(
      'E_USAGE',
      `${first} has no file to fetch; \`muster addon show ${first}\` says what to do`,
    );
  const mirrored = mirrors(options.mirror ?? []);
  const files = new Map<string, Uint8Array>();
  const manifests: { url: string; sha256: string }[] = [];
  for (const url of urls) {
    const octets = await readAll(sourceOf(mirrored(url)), MAX_MANIFEST_BYTES, io.signal);
    const sha256 = createHash('sha256').update(octets).digest('hex');
    files.set(sha256, octets);
    manifests.push({ url, sha256 });
  }
  const name = options.as ?? (named ? first : nameIn(first));
  const { objects = undefined, patches = [], images = [] } = entry;
  const rendered = renderAddon(
    { name, manifests, objects: objects?.(version) ?? [], patches, images },
    (sha256) => files.get(sha256)!,
  );
  io.out(entryText(name, entry, version, manifests));
  io.err(
    `${rendered.count} objects; images: ${rendered.images.join(', ') || 'none'}\nThese are the hashes of what was fetched just now: compare them with the publisher's before you write them into a Cluster.\n`,
  );
  return EXIT.ok;
}

/**
 * The name of an add-on, from its URL: `https://example.org/a/metallb-native.yaml` →
 * `metallb-native`.
 */
function nameIn(url: string): string {
  const last = new URL(url).pathname.split('/').at(-1) ?? '';
  const name = last
    .replace(/\.(ya?ml|json)$/, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '');
  if (name === '')
    throw new MusterError('E_USAGE', 'the URL ends in no file name; name the add-on with --as');
  return name.slice(0, 63);
}
