import { randomBytes } from 'node:crypto';

/** Gives the ids of the acquisitions of one client: `<client id>.<salt><counter>`. */
export function attemptIds(clientId: string): () => string {
  // Sets attempts of two processes apart even in the few characters by which released attempts are remembered.
  const salt = randomBytes(2).toString('base64url').slice(0, 2);
  let counter = 0;
  return () => {
    counter += 1;
    return `${clientId}.${salt}${counter.toString(36).padStart(6, '0').slice(-6)}`;
  };
}
