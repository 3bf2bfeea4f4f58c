import { Module } from '@nestjs/common';
import { OrderEventsRepository } from './order-events.repository.js';
import { OrdersController } from './orders.controller.js';
import { OrdersService } from './orders.service.js';

/** One lock per order. An argument of the method names it. */
@Module({ controllers: [OrdersController], providers: [OrdersService, OrderEventsRepository] })
export class OrdersModule {}
