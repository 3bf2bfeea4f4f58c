import { Args, Mutation, Resolver } from '@nestjs/graphql';
import { Locked } from '../../../lib/index.js';

@Resolver()
export class OrdersResolver {
  /** Lock mutations rather than field resolvers, which run once for each item. */
  @Mutation(() => String)
  @Locked('order:<0>')
  async charge(@Args('id') id: string): Promise<string> {
    return `charged ${id}`;
  }
}
