import { Controller, Param, Post } from '@nestjs/common';
import { type Charge, OrdersService } from './orders.service.js';

@Controller('orders')
export class OrdersController {
  constructor(private readonly orders: OrdersService) {}

  @Post(':id/charge')
  async charge(@Param('id') id: string): Promise<Charge> {
    return this.orders.charge({ id });
  }
}
