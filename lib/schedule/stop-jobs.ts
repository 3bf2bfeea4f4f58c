import { type ModulesContainer } from '@nestjs/core';
import { registriesOf } from './scheduler-registries.js';

/**
 * Stops the jobs of \@nestjs/schedule, as its own shutdown hook does: before or after ours, by the order of the imports.
 * Jobs that fire while the holders of locks are waited for would only be refused.
 */
export function stopJobs(modules: Pick<ModulesContainer, 'values'>): void {
  for (const registry of registriesOf(modules)) {
    for (const name of registry.getCronJobs().keys()) registry.deleteCronJob(name);
    for (const name of registry.getIntervals()) registry.deleteInterval(name);
    for (const name of registry.getTimeouts()) registry.deleteTimeout(name);
  }
}
