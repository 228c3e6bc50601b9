/** A file of the operator's computer becomes one of the boot host. */
import { useState } from 'preact/hooks';
import type { ArtifactView } from '../../api/operations/artifacts.ts';
import { ask, Problem } from '../base/http.ts';
import { hashOf, type Progress, upload } from '../base/upload.ts';
import { sizeText } from '../machine/parts.ts';
import { Choice, TextField } from '../parts/field.tsx';
import { Order } from '../parts/order.tsx';
import { type ImageLine, lackedBy } from './images.ts';

interface AddFileProps {
  readonly images: readonly ImageLine[];
  readonly artifacts: readonly ArtifactView[];
  readonly done: () => void;
}

type Arch = 'x86_64' | 'aarch64';

export function AddFile({ images, artifacts, done }: AddFileProps) {
  const [file, setFile] = useState<File | undefined>(undefined);
  const [is, setIs] = useState<'lacking' | 'binary'>('lacking');
  const [name, setName] = useState('kubelet');
  const [version, setVersion] = useState('');
  const [arch, setArch] = useState<Arch>('x86_64');
  const [step, setStep] = useState<{ readonly what: string; readonly octets: number } | undefined>(undefined);
  const progress: Progress = (what, octets) =>
    setStep({ what: what === 'read' ? 'Computing its SHA-256' : 'Sending', octets });
  const give = async (): Promise<void> => {
    if (file === undefined) return;
    try {
      const sha256 = await hashOf(file, progress);
      if (is === 'lacking' && lackedBy(sha256, images, artifacts).length === 0)
        throw new Problem({
          status: 0,
          code: '',
          detail: `Nothing lacks this file. Its SHA-256 is ${sha256}.`,
          fix: 'Compare it with the hash in the document. A new image gets its document with `muster image add`.',
        });
      await upload(file, sha256, progress);
      if (is === 'binary') {
        const form = /\.(tar(\.(gz|xz|zst))?|tgz)$/.test(file.name) ? 'tar' : 'file';
        const artifact = { kind: 'binary', name, version, arch, sha256, form } as const;
        await ask('POST /v1/artifacts', { body: { artifacts: [artifact] } });
      }
      done();
    } finally {
      setStep(undefined);
    }
  };
  const command = `muster artifacts import --binary ${name}:${version || 'VERSION'}=${file?.name ?? 'FILE'}`;
  return (
    <Order label="Add a file" title="Add a file" give={give} {...(is === 'binary' && { command })}>
      <div class="field">
        <label for="file-to-add">File</label>
        <input
          id="file-to-add"
          type="file"
          required
          onChange={(event) => setFile(event.currentTarget.files?.[0])}
        />
      </div>
      <Choice
        label="What it is"
        value={is}
        set={(chosen) => setIs(chosen as typeof is)}
        choices={[
          ['lacking', 'a file that an image or artifact lacks'],
          ['binary', 'a program of clusters, or a tar with programs'],
        ]}
      />
      {is === 'lacking' ? (
        <p class="dim">Its SHA-256 says which. The boot host keeps it only if the hash is right.</p>
      ) : (
        <div class="line">
          <TextField label="Name" value={name} set={setName} required />
          <TextField label="Version" value={version} set={setVersion} placeholder="1.36.2" required />
          <Choice
            label="Processor"
            value={arch}
            set={(chosen) => setArch(chosen as Arch)}
            choices={[
              ['x86_64', 'x86_64'],
              ['aarch64', 'aarch64'],
            ]}
          />
        </div>
      )}
      {step && file && (
        <p role="status">
          {step.what}: {sizeText(step.octets)} of {sizeText(file.size)}
          <progress max={file.size} value={step.octets} aria-label={step.what} />
        </p>
      )}
    </Order>
  );
}
