/**
 * `make docs`: writes all generated pages and files. test/audit/docs.test.ts compares them with the
 * committed ones.
 */
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { pages } from './docs-pages.ts';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
for (const [file, text] of await pages()) {
  const full = path.join(root, file);
  fs.mkdirSync(path.dirname(full), { recursive: true });
  fs.writeFileSync(full, text);
  console.log(file);
}
