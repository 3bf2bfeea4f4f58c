import { CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { Locked } from '../../../lib/index.js';

export class ChargeOrder {
  constructor(readonly orderId: string) {}
}

/** Events that it publishes are handled under the same lock. */
@CommandHandler(ChargeOrder)
export class ChargeOrderHandler implements ICommandHandler<ChargeOrder> {
  @Locked('order:<0.orderId>')
  async execute({ orderId }: ChargeOrder): Promise<string> {
    return `charged ${orderId}`;
  }
}
