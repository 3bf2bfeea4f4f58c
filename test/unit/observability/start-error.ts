import { type ModuleMetadata } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { RedisLockModule } from '../../../lib/index.js';
import { redisUrl } from '../../support/topologies/topology.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeLater } from '../../support/apps/lock-app.js';

/** The error with which an app with locks and these modules fails to start. */
export async function startError(imports: ModuleMetadata['imports'] = []): Promise<Error> {
  const locks = RedisLockModule.forRoot({ connection: redisUrl() });
  const app = await Test.createTestingModule({ imports: [locks, ...imports] }).compile();
  closeLater(app);
  return rejection(app.init());
}
