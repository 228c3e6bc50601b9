/**
 * The part of etcd's gRPC API that Muster uses, as a table: messages with the names, types and
 * numbers of `rpc.proto` and `kv.proto` of etcd 3.4 and later. Types and descriptors follow from
 * the table. Fields of a `oneof` are ordinary fields here, which is the same on the wire.
 *
 * @see https://github.com/etcd-io/etcd/blob/main/api/etcdserverpb/rpc.proto
 */
import {
  create,
  createFileRegistry,
  type DescMethodBiDiStreaming,
  type DescMethodUnary,
} from '@bufbuild/protobuf';
import {
  FileDescriptorProtoSchema,
  FieldDescriptorProto_Label as Label,
  FieldDescriptorProto_Type as Type,
} from '@bufbuild/protobuf/wkt';

const MESSAGES = {
  Header: { revision: [3, 'int64'] },
  Record: {
    key: [1, 'bytes'],
    createRevision: [2, 'int64'],
    modRevision: [3, 'int64'],
    value: [5, 'bytes'],
    lease: [6, 'int64'],
  },
  RangeRequest: {
    key: [1, 'bytes'],
    rangeEnd: [2, 'bytes'],
    limit: [3, 'int64'],
    revision: [4, 'int64'],
    keysOnly: [8, 'bool'],
  },
  RangeResponse: { header: [1, 'Header'], kvs: [2, 'Record[]'], more: [3, 'bool'] },
  PutRequest: { key: [1, 'bytes'], value: [2, 'bytes'], lease: [3, 'int64'] },
  PutResponse: { header: [1, 'Header'] },
  DeleteRequest: { key: [1, 'bytes'], rangeEnd: [2, 'bytes'] },
  DeleteResponse: { header: [1, 'Header'], deleted: [2, 'int64'] },
  RequestOp: {
    range: [1, 'RangeRequest'],
    put: [2, 'PutRequest'],
    delete: [3, 'DeleteRequest'],
    txn: [4, 'TxnRequest'],
  },
  ResponseOp: {
    range: [1, 'RangeResponse'],
    put: [2, 'PutResponse'],
    delete: [3, 'DeleteResponse'],
    txn: [4, 'TxnResponse'],
  },
  /** `result` 0: equal. `target` 1: createRevision, 2: modRevision. */
  Compare: {
    result: [1, 'int32'],
    target: [2, 'int32'],
    key: [3, 'bytes'],
    createRevision: [5, 'int64'],
    modRevision: [6, 'int64'],
  },
  TxnRequest: { compare: [1, 'Compare[]'], success: [2, 'RequestOp[]'], failure: [3, 'RequestOp[]'] },
  TxnResponse: { header: [1, 'Header'], succeeded: [2, 'bool'], responses: [3, 'ResponseOp[]'] },
  CompactionRequest: { revision: [1, 'int64'] },
  CompactionResponse: { header: [1, 'Header'] },
  WatchRequest: { create: [1, 'WatchCreate'], progress: [3, 'WatchProgress'] },
  /** `filters` 0: no puts. */
  WatchCreate: {
    key: [1, 'bytes'],
    rangeEnd: [2, 'bytes'],
    startRevision: [3, 'int64'],
    progressNotify: [4, 'bool'],
  },
  WatchProgress: {},
  WatchResponse: {
    header: [1, 'Header'],
    created: [3, 'bool'],
    canceled: [4, 'bool'],
    compactRevision: [5, 'int64'],
    cancelReason: [6, 'string'],
    events: [11, 'Event[]'],
  },
  /** `type` 0: put, 1: deletion. */
  Event: { type: [1, 'int32'], kv: [2, 'Record'] },
  GrantRequest: { ttl: [1, 'int64'] },
  GrantResponse: { header: [1, 'Header'], id: [2, 'int64'], ttl: [3, 'int64'] },
  RevokeRequest: { id: [1, 'int64'] },
  RevokeResponse: { header: [1, 'Header'] },
  KeepAliveRequest: { id: [1, 'int64'] },
  KeepAliveResponse: { header: [1, 'Header'], id: [2, 'int64'], ttl: [3, 'int64'] },
  StatusRequest: {},
  StatusResponse: {
    header: [1, 'Header'],
    version: [2, 'string'],
    dbSize: [3, 'int64'],
    leader: [4, 'int64'],
    errors: [8, 'string[]'],
    isLearner: [10, 'bool'],
    dbSizeQuota: [12, 'int64'],
  },
} as const;

const SERVICES = {
  KV: {
    Range: ['RangeRequest', 'RangeResponse'],
    Txn: ['TxnRequest', 'TxnResponse'],
    Compact: ['CompactionRequest', 'CompactionResponse'],
  },
  Watch: { Watch: ['WatchRequest', 'WatchResponse'] },
  Lease: {
    LeaseGrant: ['GrantRequest', 'GrantResponse'],
    LeaseRevoke: ['RevokeRequest', 'RevokeResponse'],
    LeaseKeepAlive: ['KeepAliveRequest', 'KeepAliveResponse'],
  },
  Maintenance: { Status: ['StatusRequest', 'StatusResponse'] },
} as const;

const SCALARS = {
  bytes: Type.BYTES,
  int64: Type.INT64,
  int32: Type.INT32,
  string: Type.STRING,
  bool: Type.BOOL,
} as const;

type Messages = typeof MESSAGES;
type Values = { bytes: Uint8Array; int64: bigint; int32: number; string: string; bool: boolean };
type Value<T> = T extends keyof Values ? Values[T] : T extends keyof Messages ? Message<T> : never;
type Field<T> = T extends `${infer One}[]` ? readonly Value<One>[] : Value<T>;
type Given<T> = T extends `${infer One}[]` ? readonly GivenOne<One>[] : GivenOne<T>;
type GivenOne<T> = T extends keyof Values ? Values[T] : T extends keyof Messages ? Input<T> : never;
type TypeOf<F> = F extends readonly [number, infer T] ? T : never;

/** A message as it is received. A field of another message may be absent. */
export type Message<M extends keyof Messages> = {
  readonly [F in keyof Messages[M]]:
    | Field<TypeOf<Messages[M][F]>>
    | (TypeOf<Messages[M][F]> extends keyof Messages ? undefined : never);
};

/** A message as it is sent: any of its fields. */
export type Input<M extends keyof Messages> = {
  readonly [F in keyof Messages[M]]?: Given<TypeOf<Messages[M][F]>>;
};

interface Methods {
  readonly Range: ['RangeRequest', 'RangeResponse'];
  readonly Txn: ['TxnRequest', 'TxnResponse'];
  readonly Compact: ['CompactionRequest', 'CompactionResponse'];
  readonly LeaseGrant: ['GrantRequest', 'GrantResponse'];
  readonly LeaseRevoke: ['RevokeRequest', 'RevokeResponse'];
  readonly Status: ['StatusRequest', 'StatusResponse'];
}

/** The methods with one answer. */
export type Method = keyof Methods;
export type InputOf<M extends Method> = Input<Methods[M][0]>;
export type OutputOf<M extends Method> = Message<Methods[M][1]>;

interface Streams {
  readonly Watch: ['WatchRequest', 'WatchResponse'];
  readonly LeaseKeepAlive: ['KeepAliveRequest', 'KeepAliveResponse'];
}

/** The methods whose requests and answers are streams. */
export type Stream = keyof Streams;
export type StreamInputOf<S extends Stream> = Input<Streams[S][0]>;
export type StreamOutputOf<S extends Stream> = Message<Streams[S][1]>;

const PACKAGE = 'etcdserverpb';
const STREAMS: ReadonlySet<string> = new Set(['Watch', 'LeaseKeepAlive']);

function describe() {
  const ofMessage = (name: string, fields: Readonly<Record<string, readonly [number, string]>>) => ({
    name,
    field: Object.entries(fields).map(([field, [number, text]]) => {
      const type = text.replace('[]', '');
      const scalar = SCALARS[type as keyof typeof SCALARS];
      return {
        name: field,
        jsonName: field,
        number,
        label: text.endsWith('[]') ? Label.REPEATED : Label.OPTIONAL,
        type: scalar ?? Type.MESSAGE,
        ...(scalar === undefined && { typeName: `.${PACKAGE}.${type}` }),
      };
    }),
  });
  const file = create(FileDescriptorProtoSchema, {
    name: 'rpc.proto',
    package: PACKAGE,
    syntax: 'proto3',
    messageType: Object.entries(MESSAGES).map(([name, fields]) => ofMessage(name, fields)),
    service: Object.entries(SERVICES).map(([name, methods]) => ({
      name,
      method: Object.entries(methods).map(([method, [input, output]]) => ({
        name: method,
        inputType: `.${PACKAGE}.${input}`,
        outputType: `.${PACKAGE}.${output}`,
        clientStreaming: STREAMS.has(method),
        serverStreaming: STREAMS.has(method),
      })),
    })),
  });
  const registry = createFileRegistry(file, () => undefined);
  return Object.keys(SERVICES).flatMap((name) => registry.getService(`${PACKAGE}.${name}`)!.methods);
}

let memoMethods: ReturnType<typeof describe> | undefined;

function methodOf(name: Method | Stream) {
  memoMethods ??= describe();
  return memoMethods.find((method) => method.name === name)!;
}

/** The descriptor of a method with one answer. */
export const unaryOf = (name: Method): DescMethodUnary => methodOf(name) as DescMethodUnary;

/** The descriptor of a method with streams. */
export const streamOf = (name: Stream): DescMethodBiDiStreaming => methodOf(name) as DescMethodBiDiStreaming;
