import { BadRequestException, Body, Controller, Get, Param, Put } from '@nestjs/common';
import { type Article } from './catalogue.repository.js';
import { CatalogueService } from './catalogue.service.js';

@Controller('catalogue')
export class CatalogueController {
  constructor(private readonly catalogue: CatalogueService) {}

  @Get(':sku')
  async read(@Param('sku') sku: string): Promise<Article> {
    return this.catalogue.read(sku);
  }

  @Put(':sku')
  async write(@Param('sku') sku: string, @Body('price') price: unknown): Promise<Article> {
    if (typeof price !== 'number' || !Number.isSafeInteger(price) || price < 0) {
      throw new BadRequestException('Expected `price` to be a whole number of cents.');
    }
    return this.catalogue.write(sku, price);
  }
}
