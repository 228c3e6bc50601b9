/** Packages: what package.json and package-lock.json must agree on. */
import { expect, test } from 'vitest';
import { read } from './tree.ts';

const { packages } = JSON.parse(read('package-lock.json')) as {
  packages: Record<
    string,
    {
      version: string;
      hasInstallScript?: boolean;
      dev?: boolean;
      optionalDependencies?: Record<string, string>;
    }
  >;
};

test('the native part of rolldown is the one that rolldown asks for', () => {
  const name = '@rolldown/binding-linux-x64-gnu';
  const asked = packages['node_modules/rolldown']!.optionalDependencies![name];
  expect(packages[`node_modules/${name}`]!.version).toBe(asked);
});

test('no package of the installed product runs a script when it is installed', () => {
  const scripted = Object.entries(packages)
    .filter(([path, { dev, hasInstallScript }]) => path !== '' && !dev && hasInstallScript)
    .map(([path]) => path);
  expect(scripted).toEqual([]);
});
