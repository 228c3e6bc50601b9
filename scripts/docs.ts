/**
 * `make docs`: writes all generated pages and files. test/audit/docs.test.ts compares them with the
 * committed ones.
 */
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { tablesFile } from './component-tables.ts';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const write = (file: string, text: string): void => {
  const full = path.join(root, file);
  fs.mkdirSync(path.dirname(full), { recursive: true });
  fs.writeFileSync(full, text);
  console.log(file);
};

// The sources that the other pages are made from import this one.
write(...tablesFile());
const { pages } = await import('./docs-pages.ts');
for (const [file, text] of await pages()) write(file, text);
