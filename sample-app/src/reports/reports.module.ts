import { Module } from '@nestjs/common';
import { ReportsController } from './reports.controller.js';
import { ReportsLeader } from './reports.leader.js';
import { ReportsRepository } from './reports.repository.js';

/** Scheduled work of the leader. */
@Module({ controllers: [ReportsController], providers: [ReportsLeader, ReportsRepository] })
export class ReportsModule {}
