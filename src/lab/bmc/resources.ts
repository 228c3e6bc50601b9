/** What Redfish resources and answers of a simulated BMC have in common. */

export interface RedfishAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

export type Body = Readonly<Record<string, unknown>>;

export const at = (path: string): Body => ({ '@odata.id': path });
export const head = (path: string, type: string, name: string): Body => ({
  '@odata.id': path,
  '@odata.type': `#${type}`,
  Id: path.split('/').at(-1)!,
  Name: name,
});
export const collection = (path: string, type: string, members: readonly (string | Body)[]): Body => ({
  ...head(path, `${type}Collection.${type}Collection`, path.split('/').at(-1)!),
  'Members@odata.count': members.length,
  Members: members.map((one) => (typeof one === 'string' ? at(one) : one)),
});

/** A message of the registry that all BMCs have (DSP2046). */
export const failure = (status: number, code: string, message: string): RedfishAnswer => ({
  status,
  headers: {},
  body: {
    error: {
      code: `Base.1.8.${code}`,
      message,
      '@Message.ExtendedInfo': [{ MessageId: `Base.1.8.${code}`, Message: message, Severity: 'Critical' }],
    },
  },
});
export const ok = (body: Body, headers: Readonly<Record<string, string>> = {}): RedfishAnswer => ({
  status: 200,
  headers,
  body,
});
export const done: RedfishAnswer = { status: 204, headers: {} };
export const MISSING = failure(404, 'ResourceMissingAtURI', 'There is no such resource.');
