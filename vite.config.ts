/** Builds the page: `make page`. The result has no inline script or style, so the CSP is strict. */
import { defineConfig } from 'vite';

export default defineConfig({
  root: 'src/page',
  base: '/',
  cacheDir: '../../.cache/vite',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: '../../dist/page',
    emptyOutDir: true,
    // Nothing becomes a data: address, which the CSP forbids.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'es2022',
    reportCompressedSize: true,
  },
});
