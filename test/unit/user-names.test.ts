import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { openUserNames, readNames } from '../../src/base/user-names.files.ts';

test('names of users come from a file like /etc/passwd, which is read again when it changes', () => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-users-'));
  const file = path.join(directory, 'passwd');
  const name = openUserNames(file);
  expect(name(0)).toBeUndefined();
  fs.writeFileSync(file, 'root:x:0:0::/root:/bin/sh\n');
  expect([name(0), name(7)]).toEqual(['root', undefined]);
  fs.writeFileSync(file, 'admin:x:0:0::/root:/bin/sh\nanna:x:7:7::/:/bin/sh\n');
  expect([name(0), name(7)]).toEqual(['admin', 'anna']);
  fs.rmSync(directory, { recursive: true });
});

test('the first name of a uid counts, and lines that are none are passed over', () => {
  const names = readNames(
    '\n#x\nroot:x:0:0:\ntoor:x:0:0:\nbad\x1b:x:5:5:\n+::::::\nx:x:-1:0:\nx:x:99999999999:0:\n',
  );
  expect([...names]).toEqual([[0, 'root']]);
});
