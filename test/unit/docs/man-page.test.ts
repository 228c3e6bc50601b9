import { expect, test } from 'vitest';
import { commandTree, visibleChildren } from '../../../scripts/command-tree.ts';
import { manPages, roff } from '../../../scripts/man-page.ts';

const pages = manPages();

test('there is a manual page for every command, and muster(1) lists all of them', () => {
  const names = visibleChildren(commandTree()).map((command) => command.name());
  expect([...pages.keys()]).toEqual(['muster.1', ...names.map((name) => `muster-${name}.1`)]);
  for (const name of names) expect(pages.get('muster.1')).toContain(`.BR muster\\-${name} (1)`);
});

test('a page describes every command below it with its options and examples', () => {
  const page = pages.get('muster-machine.1')!;
  expect(page).toContain('.SS muster machine timeline\n');
  expect(page).toContain('.SS muster machine accept\n');
  expect(pages.get('muster-apply.1')).toMatch(/\.TP\n\\fB\\-f, \\-\\-filename <path>\\fR\n/);
});

test('text cannot become a request of roff, and hyphens can be copied', () => {
  expect(roff(".so /etc/passwd\n'quoted' a\\b --force")).toBe(
    '\\&.so /etc/passwd\n\\(aqquoted\\(aq a\\eb \\-\\-force',
  );
  const words = [...pages.values()].join('').match(/^[.'][A-Za-z]*/gm)!;
  const requests = ['.', '.BR', '.PP', '.RE', '.RS', '.SH', '.SS', '.TH', '.TP', '.br', '.fi', '.nf'];
  expect([...new Set(words)].sort()).toEqual(requests);
});
