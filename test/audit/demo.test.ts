/** What `make demo` installs on a fresh host is what the scripts that it runs need. */
import { expect, test } from 'vitest';
import { read } from './tree.ts';

/** Debian's package of a tool, where it has another name. */
const PACKAGE: Readonly<Record<string, string>> = {
  busybox: 'busybox-static',
  mksquashfs: 'squashfs-tools',
  xz: 'xz-utils',
};

test('make demo asks for the package of every tool without which its images cannot be built', () => {
  const needed = /^needed='(.*)'$/m.exec(read('scripts/demo.sh'))![1]!.split(' ');
  for (const script of ['images/debian/build.sh', 'images/probe/build.sh']) {
    const tools = /^need (.*)$/m.exec(read(script))![1]!.split(' ');
    for (const tool of tools) expect(needed, `${tool} of ${script}`).toContain(PACKAGE[tool] ?? tool);
  }
});
