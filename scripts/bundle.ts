/**
 * Bundles the command and the programs that it starts, with the packages that they use:
 * scripts/bundle.ts DIRECTORY. A file loads in a millisecond, and without this the server begins
 * with 500 of them. The directory is as deep below the root as a room of `src`, so that what is
 * found from a module's own place is found from the bundle too.
 */
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { build, type Rolldown } from 'vite';

const root = path.join(import.meta.dirname, '..');
const [directory = ''] = process.argv.slice(2);
if (directory === '') {
  console.error('usage: bundle.ts DIRECTORY');
  process.exit(2);
}

/** Modules that are started by their names: as command, thread, process or unit. */
const STARTED = [
  'cli/main',
  'cluster/judge/judge-one.socket',
  'lab/simulated/fleet.files',
  'pxe/tftp/thread.socket',
  'store/sqlite-thread.files',
];

const built = await build({
  root,
  configFile: false,
  logLevel: 'warn',
  plugins: [
    {
      name: 'names of started modules',
      enforce: 'pre',
      transform: (code) =>
        code.replaceAll(/(new URL\('\.?\/?[\w.-]+)\.ts(', import\.meta\.url\))/g, '$1.js$2'),
    },
  ],
  ssr: { noExternal: true, target: 'node' },
  build: {
    ssr: true,
    outDir: path.resolve(directory),
    emptyOutDir: true,
    minify: false,
    target: 'esnext',
    copyPublicDir: false,
    rolldownOptions: {
      input: Object.fromEntries(STARTED.map((name) => [path.basename(name), `src/${name}.ts`])),
      output: { entryFileNames: '[name].js', chunkFileNames: '[name]-[hash].js' },
    },
  },
});

// The packages in the bundle: a test compares them with the list of components.
const { output } = built as Rolldown.RolldownOutput;
const modules = output.flatMap((one) => (one.type === 'chunk' ? one.moduleIds : []));
const PACKAGE = /.*node_modules\/((?:@[^/]+\/)?[^/]+)\//;
const packages = modules.flatMap((id) => PACKAGE.exec(id)?.[1] ?? []);
writeFileSync(path.join(directory, 'packages.txt'), `${[...new Set(packages)].sort().join('\n')}\n`);
