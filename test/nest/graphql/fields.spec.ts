import { Args, Field, ID, ObjectType, Parent, Query, ResolveField, Resolver } from '@nestjs/graphql';
import { currentLock, Locked } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { expectOneAtATime, startTwo, Work } from '../support/transports.js';
import { type GraphqlApp, ask, startGraphql } from '../support/transports-graphql.js';

@ObjectType()
class Order {
  @Field(() => ID)
  id!: string;
}

@Resolver(() => Order)
class Orders {
  constructor(private readonly work: Work) {}

  @Query(() => [Order])
  async orders(@Args('ids', { type: () => [ID] }) ids: string[]): Promise<Order[]> {
    return ids.map((id) => ({ id }));
  }

  @Query(() => Order)
  @Locked('order:<0>')
  async lockedOrder(@Args('id') id: string): Promise<Order & { token: number }> {
    return { id, token: currentLock().fencingToken };
  }

  @ResolveField(() => String)
  @Locked('order:<0.id>')
  fieldAbove(@Parent() order: Order, @Args('currency') currency: string): Promise<string> {
    return this.work.run(order.id).then((key) => `${key} in ${currency}`);
  }

  @Locked('order:<1.id>')
  @ResolveField(() => String)
  fieldBelow(@Args('currency') currency: string, @Parent() order: Order): Promise<string> {
    return this.work.run(order.id).then((key) => `${key} in ${currency}`);
  }

  @ResolveField(() => Boolean)
  @Locked('order:<0.id>')
  async lockedAnew(@Parent() order: Order & { token: number }): Promise<boolean> {
    return currentLock().fencingToken > order.token;
  }
}

const FIELDS = ['fieldAbove', 'fieldBelow'];

const start = (work = new Work()): Promise<GraphqlApp> => startGraphql([Orders], work);

/** Resolves one field of the orders with these ids. */
async function resolve(graphql: GraphqlApp, field: string, ids: string[]): Promise<unknown[]> {
  const query = `query ($ids: [ID!]!) { orders(ids: $ids) { answer: ${field}(currency: "eur") } }`;
  const { data } = await ask(graphql, query, { ids });
  return (data!.orders as { answer: unknown }[]).map(({ answer }) => answer);
}

afterEach(closeAll);

describe('a field resolver', () => {
  it.each(FIELDS)('(%s) runs on one of two instances at a time', async (field) => {
    await expectOneAtATime(await startTwo(start), (graphql, id) => resolve(graphql, field, [id]));
  });

  it.each(FIELDS)(
    '(%s) runs side by side for different objects of a list, and once at a time for one',
    async (field) => {
      const [graphql, id, other] = [await start(), freshKey(), freshKey()];
      const { work } = graphql;
      const answer = resolve(graphql, field, [id, other, id]);
      await eventually(() => work.isRunning(id) && work.isRunning(other));
      await untilWaiting(graphql, `order:${id}`);
      await work.untilStarted(id);
      expect(work.started(id)).toBe(1);
      work.finish();
      expect(await answer).toEqual([id, other, id].map((one) => `order:${one} in eur`));
      expect(work.overlapped(id)).toBe(false);
    },
  );

  it('acquires again the key that the query for its object held', async () => {
    const graphql = await start();
    const { data } = await ask(graphql, '{ lockedOrder(id: "7") { lockedAnew } }');
    expect(data).toEqual({ lockedOrder: { lockedAnew: true } });
    expect(graphql.acquired).toEqual(['order:7', 'order:7']);
  });
});
