import { defineConfig } from 'vite';

/** Bundles the unit tests, so that Node runs them (npm test). */
export default defineConfig({
  root: import.meta.dirname,
  build: { ssr: true, target: 'node20', outDir: 'node_modules/.unit', emptyOutDir: true, reportCompressedSize: false, rollupOptions: { input: 'test/viewer.test.ts' } },
});
