import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable, NotFoundException } from '@nestjs/common';
import { ConfigService } from '@nestjs/config';
import { currentLock, ReadLocked, WriteLocked } from 'nestjs-redis-lock';
import { type Article, CatalogueRepository } from './catalogue.repository.js';

/** Reads of an article run side by side; a write runs alone. */
@Injectable()
export class CatalogueService {
  readonly #readMs: number;
  readonly #writeMs: number;

  constructor(
    config: ConfigService,
    private readonly articles: CatalogueRepository,
  ) {
    this.#readMs = Number(config.get('CATALOGUE_READ_MS', 200));
    this.#writeMs = Number(config.get('CATALOGUE_WRITE_MS', 500));
  }

  @ReadLocked('catalogue:<0>')
  async read(sku: string): Promise<Article> {
    return this.#recorded(sku, 'read', async () => {
      await sleep(this.#readMs);
      const article = this.articles.find(sku);
      if (!article) throw new NotFoundException(`There is no article ${sku}.`);
      return article;
    });
  }

  @WriteLocked('catalogue:<0>')
  async write(sku: string, price: number): Promise<Article> {
    return this.#recorded(sku, 'write', async () => {
      await sleep(this.#writeMs);
      const { fencingToken, signal } = currentLock();
      signal.throwIfAborted();
      const article = { sku, price, fencingToken };
      this.articles.save(article);
      return article;
    });
  }

  async #recorded<T>(sku: string, mode: 'read' | 'write', work: () => Promise<T>): Promise<T> {
    const { fencingToken } = currentLock();
    this.articles.addEvent(sku, mode, 'start', fencingToken);
    try {
      return await work();
    } finally {
      this.articles.addEvent(sku, mode, 'end', fencingToken);
    }
  }
}
