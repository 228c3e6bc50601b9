/** Leaves secrets out of messages that quote what somebody wrote into a document. Pure. */

const OMITTED = '…';

/** Logins and queries of addresses, and values behind a word that says they are secret. */
const SECRETS: readonly (readonly [pattern: RegExp, instead: string])[] = [
  // In `//user:password@host`, and without the slashes. A digest of an image is none.
  [/\/\/[^\s"'/?#@]+@/g, `//${OMITTED}@`],
  [/(?<![^\s"'/=,])[^\s"'/?#@:,=]+:[^\s"'/?#@,]+@(?!sha\d+:)(?=[\w[])/g, `${OMITTED}@`],
  [/"[^\s"/@]+@(?!sha\d+:)/g, `"${OMITTED}@`],
  [/(:\/\/[^\s"'?]*\?)[^\s"']+/g, `$1${OMITTED}`],
  [
    /\b((?:token|password|passwd|secret|api[-_]?key|access[-_]?key|signature|sig)=)[^\s"'&;,]+/gi,
    `$1${OMITTED}`,
  ],
  [/\b(Bearer|Basic) +[^\s"']+/g, `$1 ${OMITTED}`],
];

/** A field whose value is a secret, by its name; `…-file` may have got the secret itself. */
const SECRET_FIELD = /(token|password|passwd|passphrase|secret|credential)s?(-auth)?(-file)?$/i;

/**
 * The message without the secrets that it quotes.
 *
 * @param field The last part of the path of the value that the message is about.
 */
export function withoutSecrets(message: string, field = ''): string {
  const plain = SECRETS.reduce((text, [pattern, instead]) => text.replace(pattern, instead), message);
  if (!SECRET_FIELD.test(field)) return plain;
  return plain.replace(/"([^"]*)"/, (quoted, value) => (value === field ? quoted : `"${OMITTED}"`));
}
