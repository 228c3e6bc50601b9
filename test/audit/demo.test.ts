/** What `make demo` installs on a fresh host is what the scripts that it runs need. */
import { load } from 'js-yaml';
import { expect, test } from 'vitest';
import { read } from './tree.ts';

test('make demo asks for the package of every tool without which its images cannot be built', () => {
  const needed = /prepare\.sh demo ((?:\\\n|[^\n])*)/.exec(read('scripts/demo.sh'))![1]!.split(/[\s\\]+/);
  for (const script of ['images/debian/build.sh', 'images/probe/build.sh']) {
    const tools = [...read(script).matchAll(/\bneed ([a-z].*)$/gm)].flatMap(([, list]) => list!.split(' '));
    expect(tools.length).toBeGreaterThan(2);
    // A tool, or tool=package where Debian's has another name.
    for (const tool of tools) expect(needed, `${tool} of ${script}`).toContain(tool.split('=').at(-1));
  }
});

test('README shows the machines of make demo, in its order, and how many expectations held', () => {
  const demo = load(read('lab/demo.yaml')) as {
    machines: { name: string; firmware: string }[];
    steps: object[];
    expect: object[];
  };
  const shown = /^NAME .*\n([\s\S]*?)\n\ndemo: all (\d+) expectations held/m.exec(read('README.md'))!;
  expect(shown[1]!.split('\n').map((row) => row.split(/ +/).slice(0, 2))).toEqual(
    demo.machines.map(({ name, firmware }) => [name, firmware]),
  );
  // A command of a step is an expectation as well.
  const commands = demo.steps.filter((step) => 'muster' in step || 'shell' in step);
  expect(Number(shown[2])).toBe(demo.expect.length + commands.length);
});
