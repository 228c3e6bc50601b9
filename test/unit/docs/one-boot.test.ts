/**
 * `docs/one-boot.md` tells a boot that really happened: its capture is replayed through the
 * product, its boxes compared.
 */

import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { millis } from '../../../src/base/duration.ts';
import type { Mac } from '../../../src/base/mac.ts';
import { explainPacket } from '../../../src/cli/explain/packet.ts';
import type { MusterEvent } from '../../../src/events/event.ts';
import { bootScript } from '../../../src/pxe/script/script.ts';
import { parseDocuments } from '../../../src/resources/document.ts';
import type { ImageSpec } from '../../../src/resources/kinds.ts';

const GOLDEN = 'test/golden/one-boot';
const page = readFileSync('docs/one-boot.md', 'utf8');
const anonymous = (text: string) =>
  text.replace(/\/boot\/[\w-]{22}(?=\/start)/g, '/boot/NAME').replace(/\/boot\/[\w-]{22}/g, '/boot/SESSION');

/** The lines of all boxes of a kind, in the page's order. */
function boxes(kind: string): string[] {
  const found = [...page.matchAll(new RegExp(`\`\`\`${kind}\n([\\s\\S]*?)\`\`\``, 'g'))];
  return found.flatMap(([, body]) => body!.trimEnd().split('\n'));
}

/**
 * Fails with the first line of `part` that does not follow its predecessor somewhere in `whole`.
 */
function expectInOrder(part: readonly string[], whole: readonly string[]): void {
  let at = 0;
  for (const line of part) {
    const found = whole.indexOf(line, at);
    expect(found, `in order: ${line}`).toBeGreaterThanOrEqual(at);
    at = found + 1;
  }
}

describe('docs/one-boot.md', () => {
  it('shows what the captured packets lead to when they are replayed', async () => {
    let printed = '';
    const io = {
      out: (text: string) => {
        printed += text;
      },
      err: () => {},
      env: {},
      color: false,
      colorErr: false,
      columns: undefined,
      scryptWork: undefined,
      ask: async () => undefined,
      signal: new AbortController().signal,
      pause: async () => {},
    };
    expect(await explainPacket(`${GOLDEN}/boot.pcap`, { config: `${GOLDEN}/config` }, io)).toBe(0);
    const replayed = anonymous(printed)
      .split('\n')
      // the time of day of the capture
      .map((line) => line.replace(/^\d\d:\d\d:\d\d\.\d+ /, ''));
    const told = boxes('replay');
    expect(told.length).toBeGreaterThan(20);
    expectInOrder(told, replayed);
  });

  it('shows the events that were recorded, at their times', () => {
    const events = readFileSync(`${GOLDEN}/events.jsonl`, 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as MusterEvent);
    const lines = events.map(({ at, kind, reason }) =>
      [((at - events[0]!.at) / 1000).toFixed(1), kind, ...(reason ? [reason.code] : [])].join(' '),
    );
    const told = boxes('events');
    expect(told.length).toBeGreaterThan(20);
    expectInOrder(told, lines);
  });

  it('shows the kernel command line as the script of today would write it', () => {
    const captured = anonymous(readFileSync(`${GOLDEN}/command-line.txt`, 'utf8'))
      .trim()
      .split(' ');
    const told = boxes('command-line');
    expectInOrder(told, captured);
    const { documents } = parseDocuments(
      readFileSync(`${GOLDEN}/config/documents.yaml`, 'utf8'),
      'documents.yaml',
    );
    const image = documents.find(({ document }) => document.kind === 'Image')!.document.spec as ImageSpec;
    const script = bootScript({
      baseUrl: 'http://10.77.0.1:8080',
      session: 'SESSION',
      mac: '52:54:00:aa:00:02' as Mac,
      machine: 'node-2',
      profile: 'node',
      image: 'debian-13',
      kernel: image.kernel,
      initrds: image.initrds ?? [],
      root: image.root,
      kernelArguments: [...(image.kernelArguments ?? []), 'ds=nocloud;s=http://10.77.0.1:8080/boot/SESSION/'],
      time: millis(1795171564_000),
    });
    const kernel = script.split('\n').find((line) => line.startsWith('kernel '))!;
    for (const argument of told)
      expect(kernel).toContain(
        argument.startsWith('BOOTIF=') ? 'BOOTIF=01-${netX/mac:hexhyp}' : ` ${argument}`,
      );
  });
});
