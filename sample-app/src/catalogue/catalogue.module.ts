import { Module } from '@nestjs/common';
import { CatalogueController } from './catalogue.controller.js';
import { CatalogueRepository } from './catalogue.repository.js';
import { CatalogueService } from './catalogue.service.js';

/** Readers share a lock; a writer holds it alone. */
@Module({ controllers: [CatalogueController], providers: [CatalogueService, CatalogueRepository] })
export class CatalogueModule {}
