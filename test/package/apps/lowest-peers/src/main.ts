import 'reflect-metadata';
import { type ModuleMetadata } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import * as entries from './entries';
import { LOCK_CHECKS, withInstances } from './locks';
import { runGroups } from './report';

const start = (metadata: ModuleMetadata) =>
  NestFactory.createApplicationContext({ module: class App {}, ...metadata }, { logger: false, abortOnError: false });

async function locks(): Promise<string[]> {
  for (const check of Object.values(LOCK_CHECKS)) await withInstances({ start }, check);
  return [...Object.keys(LOCK_CHECKS), ...Object.keys(entries)];
}

runGroups({ locks });
