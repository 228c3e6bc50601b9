/** No names, paths or secrets of any machine may get into the tree. */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { expect, test } from 'vitest';
import { ROOT, read, trackedFiles } from './tree.ts';

/** Host names in pieces, so that this file does not hold them. */
const REGISTRIES = [
  ['registry', 'npmjs', 'org'],
  ['registry', 'yarnpkg', 'com'],
  ['deb', 'debian', 'org'],
  ['security', 'debian', 'org'],
  ['snapshot', 'debian', 'org'],
  ['ftp', 'debian', 'org'],
  ['proxy', 'golang', 'org'],
  ['pypi', 'org'],
].map((parts) => parts.join('.'));

/** The hosts from which this machine gets its packages. */
function ownMirrors(): string[] {
  const lists = ['/etc/apt/sources.list', ...under('/etc/apt/sources.list.d')];
  const text = lists.filter((file) => fs.existsSync(file)).map((file) => fs.readFileSync(file, 'utf8'));
  const npm = execFileSync('npm', ['config', 'get', 'registry'], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const hosts = [...text, npm].flatMap((part) => [...part.matchAll(/https?:\/\/(?:[^@/\s]*@)?([^/:\s]+)/g)]);
  return hosts.map((found) => found[1]!).filter((host) => host !== 'localhost' && !/^127\./.test(host));
}

function under(directory: string): string[] {
  return fs.existsSync(directory) ? fs.readdirSync(directory).map((name) => `${directory}/${name}`) : [];
}

/** Text files only: a capture may hold any octets. */
const texts = trackedFiles()
  .map((file) => ({ file, text: read(file) }))
  .filter(({ text }) => !text.slice(0, 4096).includes('\0'));

const found = (words: readonly string[]): string[] =>
  texts.flatMap(({ file, text }) =>
    words.filter((word) => text.includes(word)).map((word) => `${file}: ${word}`),
  );

test('no file names a package registry or mirror', () => {
  expect(found([...new Set([...REGISTRIES, ...ownMirrors()])])).toEqual([]);
});

test('no file names a path of the machine it was written on', () => {
  expect(found([['', 'work', ''].join('/'), ['', 'tmp', 'bash_jobs'].join('/'), `${ROOT}/`])).toEqual([]);
});

test('no file holds a private key', () => {
  expect(found([`-----BEGIN ${'PRIVATE KEY'}-----`, `-----BEGIN RSA ${'PRIVATE KEY'}-----`])).toEqual([]);
});

test('executable files are scripts with an interpreter', () => {
  const staged = execFileSync('git', ['ls-files', '-s'], { encoding: 'utf8' }).split('\n');
  const executable = staged.filter((line) => line.startsWith('100755')).map((line) => line.split('\t')[1]!);
  expect(executable.filter((file) => fs.existsSync(file) && !read(file).startsWith('#!'))).toEqual([]);
});
