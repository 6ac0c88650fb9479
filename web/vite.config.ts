import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { defineConfig, type Plugin } from 'vite';

const root = import.meta.dirname;

/** What dist is made of; web.go's test has the same list. */
const sources = ['index.html', 'view.html', 'package.json', 'package-lock.json', 'tsconfig.json', 'vite.config.ts', 'src'];

/** files lists the files of a folder, or the file itself, as paths below the root. */
function files(path: string): string[] {
  const below = () => readdirSync(join(root, path), { recursive: true, withFileTypes: true });
  if (/\.\w+$/.test(path)) return [path];
  return below()
    .filter((e) => e.isFile())
    .map((e) => relative(root, join(e.parentPath, e.name)).split(sep).join('/'));
}

/** digest records what the pages were made of and what came out, so that a test finds out without Node whether they belong together. */
function digest(): Plugin {
  return {
    name: 'deskfork-digest',
    closeBundle() {
      const line = (path: string) => `${createHash('sha256').update(readFileSync(join(root, path))).digest('hex')}  ${path}\n`;
      const made = files('dist').filter((path) => path !== 'dist/digest.txt');
      const all = [...sources.flatMap(files), ...made].sort((a, b) => (a < b ? -1 : 1));
      writeFileSync(join(root, 'dist/digest.txt'), all.map(line).join(''));
    },
  };
}

export default defineConfig({
  root,
  plugins: [digest()],
  build: {
    target: 'es2022',
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'],
    assetsInlineLimit: 0, // the pages' policy has no data: scripts, and pictures are cached by their names
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    license: { fileName: 'licenses.md' }, // of what is built in, as those licenses ask
    rollupOptions: { input: { index: join(root, 'index.html'), view: join(root, 'view.html') } },
  },
});
