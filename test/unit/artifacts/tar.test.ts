/** Tar archives, compared with GNU tar. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FoundMember, TAR_END, tarHeader, tarMembers, tarPadding } from '../../../src/artifacts/tar.ts';
import { archive, summed } from './archive.ts';

const listed = async (archive: Uint8Array): Promise<FoundMember[]> => {
  const members: FoundMember[] = [];
  for await (const member of tarMembers(async (offset, length) => archive.subarray(offset, offset + length)))
    members.push(member);
  return members;
};

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(path.join(tmpdir(), 'muster-tar-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

describe('a tar archive', () => {
  it('is unpacked by GNU tar with modes and links', () => {
    const content = Buffer.from('#!/bin/sh\n');
    const archive = Buffer.concat([
      tarHeader({ path: 'usr', type: 'directory', mode: 0o755, size: 0 }),
      tarHeader({ path: 'usr/run', type: 'file', mode: 0o755, size: content.length }),
      content,
      tarPadding(content.length),
      tarHeader({ path: 'usr/link', type: 'symlink', mode: 0o777, size: 0, to: 'run' }),
      TAR_END,
    ]);
    writeFileSync(path.join(directory, 'a.tar'), archive);
    const out = execFileSync('tar', ['-tvf', path.join(directory, 'a.tar'), '--full-time', '--utc'], {
      encoding: 'utf8',
    });
    expect(out).toMatch(/^drwxr-xr-x 0\/0 +0 1970-01-01 00:00:00 usr\/$/m);
    expect(out).toMatch(/^-rwxr-xr-x 0\/0 +10 1970-01-01 00:00:00 usr\/run$/m);
    expect(out).toMatch(/usr\/link -> run$/m);
  });

  it('holds names that ustar has no place for', async () => {
    const name = `${'größer/'.repeat(50)}file`;
    const octets = Buffer.concat([
      tarHeader({ path: name, type: 'file', mode: 0o644, size: 1 }),
      Buffer.from('x'),
      tarPadding(1),
      tarHeader({ path: 'link', type: 'symlink', mode: 0o777, size: 0, to: name }),
      TAR_END,
    ]);
    const members = await listed(octets);
    expect(members).toMatchObject([{ path: name, size: 1 }, { to: name }]);
    execFileSync('tar', ['-xf', '-', '-C', directory], { input: octets });
    expect(readFileSync(path.join(directory, 'link'), 'utf8')).toBe('x');
  });

  it.each(['gnu', 'pax', 'ustar'])('of GNU tar in format %s is read with long names', async (format) => {
    const deep = path.join(directory, 'd', ...Array.from({ length: 3 }, (_, n) => `${n}`.repeat(40)));
    mkdirSync(deep, { recursive: true });
    writeFileSync(path.join(deep, 'file'), 'content');
    symlinkSync('file', path.join(deep, 'link'));
    const file = path.join(directory, 'a.tar');
    execFileSync('tar', ['-C', path.join(directory, 'd'), '--format', format, '-cf', file, '.']);
    const archive = readFileSync(file);
    const members = await listed(archive);
    const found = members.find((member) => member.path.endsWith('/file'))!;
    expect(found).toMatchObject({ type: 'file', size: 7 });
    expect(found.path).toBe(path.relative(path.join(directory, 'd'), path.join(deep, 'file')));
    expect(archive.subarray(found.offset, found.offset + 7).toString()).toBe('content');
    expect(members.find((member) => member.type === 'symlink')).toMatchObject({ to: 'file' });
  });

  it('is read back to the members that were written', async () => {
    const member = fc.record({
      path: fc
        .array(fc.stringMatching(/^[A-Za-z0-9_-][A-Za-z0-9._-]{0,40}$/), { minLength: 1, maxLength: 5 })
        .map((names) => names.join('/')),
      mode: fc.constantFrom(0o644, 0o755),
      size: fc.nat(2000),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(member, { maxLength: 5 }), async (members) => {
        const archive = Buffer.concat([
          ...members.flatMap(({ size, ...rest }) => [
            tarHeader({ ...rest, size, type: 'file' }),
            Buffer.alloc(size, 'x'),
            tarPadding(size),
          ]),
          TAR_END,
        ]);
        expect(
          (await listed(archive)).map(({ path: name, mode, size }) => ({ path: name, mode, size })),
        ).toEqual(members);
      }),
    );
  });

  it('has no members outside its root: those with .. in their path are left out', async () => {
    const archive = Buffer.concat([
      tarHeader({ path: '../etc/passwd', type: 'file', mode: 0o644, size: 0 }),
      tarHeader({ path: '/etc/shadow', type: 'file', mode: 0o644, size: 0 }),
      TAR_END,
    ]);
    expect((await listed(archive)).map(({ path: name }) => name)).toEqual(['etc/shadow']);
  });

  it('with an empty pax header is read to its end', async () => {
    const damaged = summed(archive(['x', 'pax', 'nonsense\n'], ['0', 'a', '']));
    expect((await listed(damaged)).map(({ path: name }) => name)).toEqual(['a']);
  });

  it('that is damaged or of another format is refused with E_ARTIFACT, and never read endlessly', async () => {
    await expect(listed(Buffer.from('no tar'))).rejects.toMatchObject({ code: 'E_ARTIFACT' });
    const good = Buffer.concat([
      tarHeader({ path: 'a', type: 'file', mode: 0o644, size: 3 }),
      Buffer.alloc(512),
      TAR_END,
    ]);
    await fc.assert(
      fc.asyncProperty(fc.nat(511), fc.nat(255), async (at, octet) => {
        const damaged = Buffer.from(good);
        damaged[at] = octet;
        // The character that ends the checksum differs between writers, and is not part of the sum.
        if (damaged.equals(good) || at === 154 || at === 155) return;
        await expect(listed(damaged)).rejects.toMatchObject({ code: 'E_ARTIFACT' });
      }),
      { numRuns: 1000, seed: 5 },
    );
  });
});
