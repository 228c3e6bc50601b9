/** The documentation: generated pages are current, links lead somewhere, documents are valid. */
import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { pages } from '../../scripts/docs-pages.ts';
import { AGENT_ROUTES } from '../../src/agent/wire/protocol.ts';
import { ROUTES } from '../../src/api/operations.ts';
import { ERRORS } from '../../src/base/errors.ts';
import { MACHINE_ROUTES } from '../../src/pxe/http/routes.ts';
import { parseDocuments } from '../../src/resources/document.ts';
import { ROOT, read, sources, trackedFiles, withoutComments } from './tree.ts';

const generated = await pages();

test.for([...generated])('%s is what `make docs` writes', ([file, text]) => {
  expect(fs.existsSync(path.join(ROOT, file)), `${file} is missing: make docs`).toBe(true);
  expect(read(file)).toBe(text);
});

test('docs/errors.md lists exactly the codes that exist', () => {
  const listed = [...read('docs/errors.md').matchAll(/^\| `(E_[A-Z_]+)` \|/gm)].map((found) => found[1]);
  expect(listed).toEqual(Object.keys(ERRORS));
});

test('docs/ports.md lists exactly the routes that exist', () => {
  const listed = [...read('docs/ports.md').matchAll(/^\| (GET|PUT|POST|DELETE) \| `([^`]+)` \|/gm)].map(
    (found) => `${found[1]} ${found[2]}`,
  );
  const routes = [...Object.values(MACHINE_ROUTES), ...Object.values(AGENT_ROUTES), ...ROUTES];
  expect(listed).toEqual(routes.map((route) => `${route.method} ${route.path}`));
});

test('docs/ports.md lists every route of every table in the code', () => {
  const routes = sources('src').flatMap((file) =>
    [
      ...withoutComments(read(file)).matchAll(/(?:method: '|^ {2,4}')([A-Z]+)(?:',\s+path: '| )(\/[^']*)'/gm),
    ].map(([, method, path]) => `${method} | \`${path}\``),
  );
  expect(routes.length).toBeGreaterThan(90);
  const page = read('docs/ports.md');
  expect(routes.filter((route) => !page.includes(`| ${route} |`))).toEqual([]);
});

/** The anchor that GitHub makes of a heading. */
const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[`*_]/g, (mark) => (mark === '_' ? '_' : ''))
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replace(/\s/g, '-');

const pagesOfTree = trackedFiles().filter((file) => file.endsWith('.md'));

/** The links of a page to files of the tree, with the file and the heading that each names. */
function linksOf(page: string): { link: string; target: string; anchor: string | undefined }[] {
  const text = read(page).replace(/```[\s\S]*?```/g, '');
  return [...text.matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, link]) => {
    if (/^[a-z]+:/i.test(link!)) return [];
    const [file = '', anchor] = link!.split('#');
    const target = file === '' ? page : path.posix.join(path.posix.dirname(page), decodeURIComponent(file));
    return [{ link: link!, target, anchor }];
  });
}

test('pages that are installed link only what is installed', () => {
  const [, list] = /^for part in ((?:[^;\\]|\\\n)+); do$/m.exec(read('scripts/install.sh'))!;
  const parts = list!.split(/[\s\\]+/);
  const installed = (file: string) =>
    parts.some((part) => file === part || file.replace(/\/$/, '') === part || file.startsWith(`${part}/`));
  expect(parts).toContain('docs');
  const broken = pagesOfTree.filter(installed).flatMap((page) =>
    linksOf(page)
      .filter(({ target }) => !installed(target))
      .map(({ link }) => `${page}: ${link}`),
  );
  expect(broken).toEqual([]);
});

test('links between pages lead to files and headings that exist', () => {
  const broken = pagesOfTree.flatMap((page) => {
    return linksOf(page).flatMap(({ link, target, anchor }) => {
      if (!fs.existsSync(path.join(ROOT, target))) return [`${page}: ${link}`];
      if (anchor === undefined || !target.endsWith('.md')) return [];
      const anchors = [...read(target).matchAll(/^#+\s+(.*)$/gm)].map((found) => anchorOf(found[1]!));
      return anchors.includes(anchor) ? [] : [`${page}: ${link}`];
    });
  });
  expect(broken).toEqual([]);
});

test('every file of the tree that a page names exists', () => {
  const missing = pagesOfTree.flatMap((page) =>
    [
      ...read(page).matchAll(
        /`((?:src|test|scripts|systemd|profiles|lab|images|bench)\/[A-Za-z0-9_./-]+\.[a-z]+)`/g,
      ),
    ]
      .map((found) => found[1]!)
      // A stem in capitals is a placeholder: `bench/NAME.bench.ts`.
      .filter((file) => !/\/[A-Z]+\./.test(file) && !fs.existsSync(path.join(ROOT, file)))
      .map((file) => `${page}: ${file}`),
  );
  expect(missing).toEqual([]);
});

/** The YAML blocks of a page that are Muster documents, without the indentation of lists. */
function documentsIn(page: string): string[] {
  return [...read(page).matchAll(/^( *)```yaml\n([\s\S]*?)^ *```/gm)]
    .map(([, indent, text]) => text!.replaceAll(new RegExp(`^${indent}`, 'gm'), ''))
    .filter((text) => /^apiVersion: muster/m.test(text));
}

test('every document that a page shows is valid', () => {
  const shown = pagesOfTree.flatMap((page) => documentsIn(page).map((text) => ({ page, text })));
  expect(shown.length).toBeGreaterThan(1);
  const faults = shown.flatMap(({ page, text }) =>
    parseDocuments(text, page).faults.map((fault) => `${page}: ${fault.path}: ${fault.message}`),
  );
  expect(faults).toEqual([]);
});
