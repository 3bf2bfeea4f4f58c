import { Module } from '@nestjs/common';
import { OrderEventsRepository } from './order-events.repository.js';
import { OrdersController } from './orders.controller.js';
import { OrdersService } from './orders.service.js';

/** A lock per order, named by an argument. */
@Module({ controllers: [OrdersController], providers: [OrdersService, OrderEventsRepository] })
export class OrdersModule {}
