import { MessageBody, SubscribeMessage, WebSocketGateway, type WsResponse } from '@nestjs/websockets';
import { Locked } from '../../../lib/index.js';

@WebSocketGateway()
export class Seats {
  readonly taken = new Set<string>();

  /** The key is filled from the parameters of the method, as Nest gives them. */
  @SubscribeMessage('book')
  @Locked('seat:<0>')
  async book(@MessageBody('seat') seat: string): Promise<WsResponse<string>> {
    if (this.taken.has(seat)) return { event: 'refused', data: seat };
    this.taken.add(seat);
    return { event: 'booked', data: seat };
  }
}
