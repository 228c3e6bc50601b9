/** Everything that the catalogues list exists in the code, and the code uses nothing else. */
import { expect, test } from 'vitest';
import { ERRORS } from '../../src/base/errors.ts';
import { METRICS } from '../../src/base/metrics.ts';
import { EVENT_KINDS } from '../../src/events/event.ts';
import { REASONS } from '../../src/pxe/decide/decision.ts';
import { read, sources, withoutComments } from './tree.ts';

const code = new Map(sources('src').map((file) => [file, withoutComments(read(file))]));

/** Files other than `home` whose code holds the quoted word. */
const usersOf = (word: string, home: string): string[] =>
  [...code]
    .filter(([file, text]) => file !== home && new RegExp(`['"\`]${word}['"\`]`).test(text))
    .map(([file]) => file);

const unused = (words: readonly string[], home: string): string[] =>
  words.filter((word) => usersOf(word, home).length === 0);

test('every error code is used', () => {
  expect(unused(Object.keys(ERRORS), 'src/base/errors.ts')).toEqual([]);
});

test('every error code in the code is in the catalogue', () => {
  const all = [...code.values(), read('systemd/bind-sockets.pl')];
  const found = new Set(all.flatMap((text) => text.match(/\bE_[A-Z][A-Z_]+\b/g) ?? []));
  expect([...found].filter((word) => !Object.hasOwn(ERRORS, word))).toEqual([]);
});

test('every error has a sentence that says what to do', () => {
  const wrong = Object.entries(ERRORS)
    .filter(([, { title, fix }]) => !/^[A-Z`].*[.?]$/.test(title) || !/^[A-Z`].*[.?]$/.test(fix))
    .map(([name]) => name);
  expect(wrong).toEqual([]);
});

test('every kind of event is recorded somewhere', () => {
  expect(unused(Object.keys(EVENT_KINDS), 'src/events/event.ts')).toEqual([]);
});

test('every metric is counted somewhere', () => {
  expect(unused(Object.keys(METRICS), 'src/base/metrics.ts')).toEqual([]);
});

test('every metric is named as Prometheus asks', () => {
  const wrong = Object.entries(METRICS).filter(
    ([name, { type }]) =>
      !/^muster_[a-z_]+$/.test(name) ||
      (type === 'counter') !== name.endsWith('_total') ||
      (type === 'histogram') !== /(?<!_timestamp)_seconds$/.test(name),
  );
  expect(wrong).toEqual([]);
});

test('every reason of a decision is used somewhere', () => {
  expect(unused(Object.keys(REASONS), 'src/pxe/decide/decision.ts')).toEqual([]);
});
