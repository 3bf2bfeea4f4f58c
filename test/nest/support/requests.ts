import 'reflect-metadata';
import {
  type ArgumentsHost,
  Catch,
  type ExecutionContext,
  type INestApplication,
  type ModuleMetadata,
} from '@nestjs/common';
import { BaseExceptionFilter } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import { RedisLockModule, type RedisLockModuleOptions, RedisLockService } from '../../../lib/index.js';
import { eventually } from '../../support/eventually.js';
import { closeLater, redisUrl } from '../../support/lock-app.js';
import { type Instance, Work } from './transports.js';

export type Platform = 'express' | 'fastify';
export const PLATFORMS: readonly Platform[] = ['express', 'fastify'];

/** What express and fastify both have of a request. */
export interface Request {
  readonly params: Record<string, string>;
  readonly query: Record<string, string>;
  readonly headers: Record<string, string>;
  user?: { id?: string };
}

/** What express and fastify both have of a response. */
export interface Response {
  header(name: string, value: string): this;
  status(code: number): this;
  send(body: unknown): unknown;
}

export const requestOf = (context: ExecutionContext): Request => context.switchToHttp().getRequest<Request>();

export interface Answer {
  readonly status: number;
  readonly text: string;
  readonly headers: Headers;
}

/** An instance that answers over HTTP. */
export interface RequestApp extends Instance {
  readonly url: string;
  /** What requests failed with. */
  readonly failures: readonly Error[];
  readonly get: (path: string, init?: RequestInit) => Promise<Answer>;
}

/** Keeps what requests failed with, and answers as Nest does. */
@Catch()
class KeepFailures extends BaseExceptionFilter {
  readonly all: Error[] = [];

  override catch(error: Error, host: ArgumentsHost): void {
    this.all.push(error);
    super.catch(error, host);
  }
}

export interface StartOptions {
  work?: Work;
  locks?: RedisLockModuleOptions;
  /** Sets what the app needs before it is initialised, instead of a filter that keeps what requests failed with. */
  prepare?: (app: INestApplication) => void;
}

/** Starts an instance on a port of the system's choice; `closeAll` closes it, whatever its clients still wait for. */
export async function startRequests(
  platform: Platform,
  metadata: ModuleMetadata,
  { work = new Work(), locks: lockOptions = {}, prepare }: StartOptions = {},
): Promise<RequestApp> {
  const lockModule = RedisLockModule.forRoot({ connection: redisUrl(), drainMs: 100, ...lockOptions });
  const imports = [lockModule, ...(metadata.imports ?? [])];
  const providers = [{ provide: Work, useValue: work }, ...(metadata.providers ?? [])];
  const compiled = await Test.createTestingModule({ ...metadata, imports, providers }).compile();
  const adapter = platform === 'express' ? new ExpressAdapter() : new FastifyAdapter();
  const app = compiled.createNestApplication(adapter, { logger: false, forceCloseConnections: true });
  const locks = app.get(RedisLockService);
  const acquired: string[] = [];
  locks.events.on('acquired', ({ key }) => acquired.push(key));
  const instance = closeLater({ app, locks, work, acquired, close: () => app.close() });
  const failures = new KeepFailures(adapter);
  if (prepare) prepare(app);
  else app.useGlobalFilters(failures);
  await app.listen(0, '127.0.0.1');
  const url = await app.getUrl();
  return { ...instance, url, failures: failures.all, get: (path, init) => get(`${url}/${path}`, init) };
}

async function get(url: string, init: RequestInit = {}): Promise<Answer> {
  const { status, headers, text } = await fetch(url, { redirect: 'manual', ...init }).then(async (response) => ({
    status: response.status,
    headers: response.headers,
    text: await response.text(),
  }));
  return { status, headers, text };
}

/** Two instances of one app, which share what they note. */
export async function startTwoRequests(
  platform: Platform,
  metadata: ModuleMetadata,
  options: StartOptions = {},
): Promise<readonly [RequestApp, RequestApp]> {
  const shared = { ...options, work: options.work ?? new Work() };
  return [await startRequests(platform, metadata, shared), await startRequests(platform, metadata, shared)];
}

/** Waits until nobody holds the lock. */
export async function untilFree({ locks }: Pick<Instance, 'locks'>, key: string): Promise<void> {
  await eventually(async () => !(await locks.isLocked(key)), { message: `The lock "${key}" was not released` });
}

/** A request whose client goes away when the test says so, or at its end. */
export function open(
  { url }: RequestApp,
  path: string,
): { readonly answer: Promise<globalThis.Response>; leave: () => void } {
  const client = new AbortController();
  const leave = (): void => client.abort();
  closeLater({ close: async () => leave() });
  const answer = fetch(`${url}/${path}`, { signal: client.signal });
  answer.catch(() => undefined);
  return { answer, leave };
}
