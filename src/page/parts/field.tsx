/** Labelled fields of forms. */
import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';

interface TextFieldProps {
  readonly label: string;
  readonly value: string;
  readonly set: (value: string) => void;
  readonly hint?: ComponentChildren;
  readonly type?: 'text' | 'search' | 'password';
  readonly autocomplete?: 'username' | 'current-password' | 'new-password' | 'off';
  readonly placeholder?: string;
  readonly required?: boolean;
  readonly autoFocus?: boolean;
}
export function TextField({ label, value, set, hint, type = 'text', ...rest }: TextFieldProps) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        id={id}
        // The types allow only one literal at a time.
        type={type as 'text'}
        value={value}
        spellcheck={false}
        {...(hint !== undefined && { 'aria-describedby': `${id}-hint` })}
        onInput={(event) => set(event.currentTarget.value)}
        {...rest}
      />
      {hint && (
        <small id={`${id}-hint`} class="dim">
          {hint}
        </small>
      )}
    </div>
  );
}

interface ChoiceProps {
  readonly label: string;
  readonly value: string;
  readonly set: (value: string) => void;
  /** Value and text of each choice. */
  readonly choices: readonly (readonly [string, string])[];
  readonly disabled?: boolean;
}
export function Choice({ label, value, set, choices, disabled }: ChoiceProps) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select
        id={id}
        value={value}
        disabled={disabled ?? false}
        onChange={(event) => set(event.currentTarget.value)}
      >
        {choices.map(([key, text]) => (
          <option key={key} value={key}>
            {text}
          </option>
        ))}
      </select>
    </div>
  );
}
