/** Joins the rows of a table of contracts with their handlers. */
import type { Contracts } from './contract/contract.ts';
import type { ApiDeps } from './deps.ts';
import { type Handler, type Route, rowsOf } from './handler.ts';

/** Makes routes of a table of contracts and a handler for each. */
export const bind = <T extends Contracts, Deps = ApiDeps>(
  table: T,
  handlers: { readonly [O in keyof T]: Handler<NoInfer<Deps>> },
): readonly Route<Deps>[] => rowsOf(table).map((row) => ({ ...row, handler: handlers[row.operation] }));
