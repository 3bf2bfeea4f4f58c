import { type Operands } from '../redis-client.js';
import { readScan, readTime, readWait } from '../replies.js';

/** The commands of the port, each as the words that are sent. */
export abstract class NodeRedisCommands {
  protected abstract send(args: readonly string[]): Promise<unknown>;

  /** node-redis itself writes at once what is sent in one turn. */
  inOneWrite(send: () => void): void {
    send();
  }

  evaluateSha(sha1: string, operands: Operands): Promise<unknown> {
    return this.send(['evalsha', sha1, ...operands.map(String)]);
  }

  evaluate(text: string, operands: Operands): Promise<unknown> {
    return this.send(['eval', text, ...operands.map(String)]);
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
}
