import { type Operands } from '../redis-client.js';
import { readScan, readTime, readWait } from '../replies.js';

/** The commands of the port, each as the words that are sent. */
export abstract class NodeRedisCommands {
  /** node-redis puts it before keys that it knows, but not into the words of a command. */
  abstract readonly keyPrefix: string;

  protected abstract send(args: readonly string[]): Promise<unknown>;

  /** node-redis itself writes at once what is sent in one turn. */
  inOneWrite(send: () => void): void {
    send();
  }

  evaluateSha(sha1: string, operands: Operands): Promise<unknown> {
    return this.send(['evalsha', sha1, ...this.#words(operands)]);
  }

  evaluate(text: string, operands: Operands): Promise<unknown> {
    return this.send(['eval', text, ...this.#words(operands)]);
  }

  call(words: readonly string[]): Promise<unknown> {
    return this.send(words);
  }

  /** node-redis gives up a connection whose SELECT is refused. */
  async select(): Promise<void> {}

  /** The next command follows in the same turn, and nothing comes between them. It reports a refusal. */
  asking(): void {
    this.send(['asking']).catch(() => undefined);
  }

  async info(section?: 'server'): Promise<string> {
    return String(await this.send(section ? ['info', section] : ['info']));
  }

  async time(): Promise<number> {
    return readTime(await this.send(['time']));
  }

  async scan(cursor: string, pattern: string, count: number): Promise<[cursor: string, keys: string[]]> {
    return readScan(await this.send(['scan', cursor, 'match', pattern, 'count', String(count)]));
  }

  async wait(replicas: number, timeoutMs: number): Promise<number> {
    return readWait(await this.send(['wait', String(replicas), String(timeoutMs)]));
  }

  #words(operands: Operands): string[] {
    const words = operands.map(String);
    if (this.keyPrefix === '') return words;
    const keys = Number(operands[0]);
    return words.map((word, i) => (i >= 1 && i <= keys ? this.keyPrefix + word : word));
  }
}
