// The main file of each app that checks everything.
import 'reflect-metadata';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { type ModuleMetadata } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { clientVariants } from './clients.js';
import { checkContexts } from './contexts.js';
import { checkCopies } from './copies.js';
import * as entries from './entries.js';
import { checkRoutes } from './http.js';
import { eventually, LOCK_CHECKS, openWork, type Setup, withInstances } from './locks.js';
import { runGroups } from './report.js';

const start = (metadata: ModuleMetadata) =>
  NestFactory.createApplicationContext({ module: class App {}, ...metadata }, { logger: false, abortOnError: false });

async function locks(setup: Partial<Setup> = {}): Promise<string[]> {
  for (const check of Object.values(LOCK_CHECKS)) await withInstances({ start, ...setup }, check);
  return Object.keys(LOCK_CHECKS);
}

async function clients(): Promise<string[]> {
  const { version } = createRequire(join(process.cwd(), 'package.json'))('ioredis/package.json') as { version: string };
  const variants = clientVariants(version);
  const check = async (variant: (typeof variants)[number]) =>
    locks(variant).catch((cause: unknown) => {
      throw new Error(`${variant.name}: ${String(cause)}`, { cause });
    });
  await Promise.all(variants.map(check));
  return variants.map(({ name }) => name);
}

async function contexts(): Promise<string[]> {
  const checked: string[] = [];
  await withInstances({ start }, async (open) => void checked.push(...(await checkContexts(open))));
  return checked;
}

async function http(): Promise<string[]> {
  await checkRoutes(() => new ExpressAdapter(), { openWork, eventually });
  await checkRoutes(() => new FastifyAdapter(), { openWork, eventually });
  return ['express', 'fastify'];
}

/** The other entries of the package, each with something in it. */
async function subpaths(): Promise<string[]> {
  const empty = Object.entries<object>(entries).find(([, names]) => Object.keys(names).length === 0);
  if (empty) throw new Error(`Nothing is exported by ${empty[0]}.`);
  return ['the main entry', ...Object.keys(entries)];
}

async function copies(): Promise<string[]> {
  await checkCopies();
  return ['two copies'];
}

const usual = { locks, contexts, http, subpaths };
runGroups(process.argv.length > 2 ? { ...usual, clients, copies } : usual);
