import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { firmwareDocument, QUIRKS, type Quirk } from '../../../../src/pxe/firmware/quirks.ts';

const root = new URL('../../../../', import.meta.url);

describe('the table of firmware quirks', () => {
  it.each(Object.entries(QUIRKS) as [string, Quirk][])('%s is held by a test that exists', (_id, quirk) => {
    const [file, title] = quirk.test.split(/: (.*)/s) as [string, string];
    expect(readFileSync(new URL(file, root), 'utf8').replaceAll("\\'", "'")).toContain(title);
    expect(quirk.source).not.toBe('');
  });

  it('is the text of docs/firmware.md', () => {
    const text = firmwareDocument();
    for (const id of Object.keys(QUIRKS)) expect(text).toContain(`## ${id}\n`);
  });

  it('knows every quirk that classification can report', () => {
    const source = readFileSync(new URL('src/pxe/dhcp/classify.ts', root), 'utf8');
    const reported = [...source.matchAll(/quirks\.push\('([a-z0-9-]+)'\)/g)].map((found) => found[1]!);
    expect(reported.length).toBeGreaterThan(3);
    for (const id of reported) expect(Object.keys(QUIRKS)).toContain(id);
  });
});
