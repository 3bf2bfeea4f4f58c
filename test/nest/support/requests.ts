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
import { type RedisLockModuleOptions } from '../../../lib/index.js';
import { closeLater } from '../../support/apps/lock-app.js';
import { buildInstance, type Instance, startTwo, Work } from './transports.js';

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
  /** Whether the app, when it closes, waits for no client. @default true */
  forceCloseConnections?: boolean;
  /** Whether the app trusts X-Forwarded-Host. @default false */
  trustProxy?: boolean;
}

/** Starts an instance on a port of the system's choice; `closeAll` closes it, by default without waiting for its clients. */
export async function startRequests(
  platform: Platform,
  metadata: ModuleMetadata,
  { work = new Work(), locks, prepare, forceCloseConnections = true, trustProxy = false }: StartOptions = {},
): Promise<RequestApp> {
  const adapter = platform === 'express' ? new ExpressAdapter() : new FastifyAdapter({ trustProxy });
  if (adapter instanceof ExpressAdapter) adapter.set('trust proxy', trustProxy);
  const built = await buildInstance(metadata, work, { adapter, locks, forceCloseConnections });
  const { app } = built;
  // `work` continues: tests close an app while it runs.
  const instance = closeLater({ ...built, close: () => app.close() });
  const failures = new KeepFailures(adapter);
  if (prepare) prepare(app);
  else app.useGlobalFilters(failures);
  await app.listen(0, '127.0.0.1');
  const url = await app.getUrl();
  return { ...instance, url, failures: failures.all, get: (path, init) => get(`${url}/${path}`, init) };
}

/** Starts an instance on express as users have it: nothing is set before it is initialised, and it waits for its clients. */
export const startPlain = (metadata: ModuleMetadata, locks?: RedisLockModuleOptions): Promise<RequestApp> =>
  startRequests('express', metadata, { locks, prepare: () => undefined, forceCloseConnections: false });

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
  return startTwo((work) => startRequests(platform, metadata, { ...options, work }), options.work);
}

/** A request whose client goes away when the test aborts it, or at its end. */
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
