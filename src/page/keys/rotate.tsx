/** Begins a rotation: which keys get a successor. */
import { useState } from 'preact/hooks';
import { commandOf } from '../base/acts.ts';
import { BeginChange } from '../cluster/begin-change.tsx';

interface RotateProps {
  readonly cluster: string;
  readonly keysets: readonly { readonly name: string; readonly about: string }[];
}

export function Rotate({ cluster, keysets }: RotateProps) {
  const [chosen, setChosen] = useState<readonly string[]>([]);
  return (
    <BeginChange
      cluster={cluster}
      label="Rotate keys"
      title={`Rotate keys of ${cluster}`}
      begin="Begin the rotation"
      order={chosen.length === 0 ? undefined : { kind: 'rotation', keysets: [...chosen] }}
      command={commandOf(['pki', 'rotate', ...chosen], { '--cluster': cluster })}
    >
      <legend>Which keys get a successor?</legend>
      {keysets.map(({ name, about }) => (
        <label key={name} class="check">
          <input
            type="checkbox"
            checked={chosen.includes(name)}
            onChange={() =>
              setChosen(chosen.includes(name) ? chosen.filter((one) => one !== name) : [...chosen, name])
            }
          />
          {name} <span class="dim">{about}</span>
        </label>
      ))}
    </BeginChange>
  );
}
