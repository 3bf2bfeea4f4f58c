import { type ModuleMetadata } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { LOCK_CHECKS, withInstances } from './locks';

const start = async (metadata: ModuleMetadata) => (await Test.createTestingModule(metadata).compile()).init();

describe('locks in this test runner', () => {
  for (const [name, check] of Object.entries(LOCK_CHECKS)) {
    it(name, () => withInstances({ start }, check), 30_000);
  }
});
