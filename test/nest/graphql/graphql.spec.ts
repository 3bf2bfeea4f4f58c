import { Injectable, Scope, UseGuards, UsePipes } from '@nestjs/common';
import { Args, ArgsType, Context, Field, Mutation, Query, Resolver } from '@nestjs/graphql';
import { Locked } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { expectOneAtATime, marks, refuses, startTwo, Work } from '../support/transports.js';
import { type GraphqlApp, ask, startGraphql } from '../support/transports-graphql.js';

@ArgsType()
class OrderArgs {
  @Field()
  id!: string;
}

@Resolver()
class Orders {
  constructor(private readonly work: Work) {}

  @Mutation(() => String)
  @Locked('order:<0>')
  mutateAbove(@Args('id') id: string): Promise<string> {
    return this.work.run(id);
  }

  @Locked('order:<1.id>')
  @Mutation(() => String)
  mutateBelow(@Context() _context: unknown, @Args() args: OrderArgs): Promise<string> {
    return this.work.run(args.id);
  }

  @Query(() => String)
  @Locked('order:<0>')
  queryAbove(@Args('id') id: string): Promise<string> {
    return this.work.run(id);
  }

  @Locked('order:<0>')
  @Query(() => String)
  queryBelow(@Args('id') id: string): Promise<string> {
    return this.work.run(id);
  }
}

@Injectable({ scope: Scope.REQUEST })
@Resolver()
class PerRequest {
  static built = 0;

  constructor(private readonly work: Work) {
    PerRequest.built += 1;
  }

  @Mutation(() => String)
  @Locked('order:<0>')
  perRequest(@Args('id') id: string): Promise<string> {
    return this.work.run(id);
  }
}

const NO_REFUSAL = { type: () => String, nullable: true };

@Resolver()
@UseGuards(refuses('class'))
@UsePipes(marks('class'))
class Checked {
  constructor(private readonly work: Work) {}

  @Mutation(() => String)
  @UseGuards(refuses('method'))
  @UsePipes(marks('method'))
  @Locked('order:<0>')
  checkedAbove(
    @Args('id', marks('parameter')) id: string,
    @Args('refusedBy', NO_REFUSAL) _by?: string,
  ): Promise<string> {
    return this.work.run(id);
  }

  @Locked('order:<0>')
  @UsePipes(marks('method'))
  @UseGuards(refuses('method'))
  @Mutation(() => String)
  checkedBelow(
    @Args('id', marks('parameter')) id: string,
    @Args('refusedBy', NO_REFUSAL) _by?: string,
  ): Promise<string> {
    return this.work.run(id);
  }
}

const start = (work = new Work()): Promise<GraphqlApp> => startGraphql([Orders, PerRequest, Checked], work);

const CHECKED = ['checkedAbove', 'checkedBelow'];
const METHODS = ['mutateAbove', 'mutateBelow', 'queryAbove', 'queryBelow', 'perRequest', ...CHECKED];

/** Calls one resolver method, and gives its answer. */
async function call(graphql: GraphqlApp, method: string, id: string): Promise<unknown> {
  const kind = method.startsWith('query') ? 'query' : 'mutation';
  const { data } = await ask(graphql, `${kind} ($id: String!) { answer: ${method}(id: $id) }`, { id });
  return data?.answer;
}

const received = (method: string, id: string): string =>
  CHECKED.includes(method) ? `${id}+class+method+parameter` : id;

afterEach(closeAll);

describe('a resolver method', () => {
  it.each(METHODS)('(%s) answers under the key of what it receives', async (method) => {
    const graphql = await start();
    graphql.work.finish();
    expect(await call(graphql, method, '7')).toBe(`order:${received(method, '7')}`);
    expect(graphql.acquired).toEqual([`order:${received(method, '7')}`]);
  });

  it.each(METHODS)('(%s) runs on one of two instances at a time', async (method) => {
    const callIt = (graphql: GraphqlApp, id: string): Promise<unknown> => call(graphql, method, id);
    await expectOneAtATime(await startTwo(start), callIt, (id) => received(method, id));
  });

  it('runs one at a time for the queries of one document, too', async () => {
    const [graphql, id, other] = [await start(), freshKey(), freshKey()];
    const { work } = graphql;
    const query = `{ a: queryAbove(id: "${id}") b: queryAbove(id: "${id}") c: queryAbove(id: "${other}") }`;
    const answer = ask(graphql, query);
    await eventually(() => work.isRunning(id) && work.isRunning(other));
    await untilWaiting(graphql, `order:${id}`);
    await work.untilStarted(id);
    expect(work.started(id)).toBe(1);
    work.finish();
    const key = `order:${id}`;
    expect(await answer).toEqual({ data: { a: key, b: key, c: `order:${other}` } });
    expect(work.overlapped(id)).toBe(false);
  });

  it('of a request-scoped resolver has an instance for each request', async () => {
    const graphql = await start();
    graphql.work.finish();
    const before = PerRequest.built;
    for (const id of ['1', '2']) await call(graphql, 'perRequest', id);
    expect(PerRequest.built - before).toBe(2);
  });

  it.each(CHECKED)('(%s) keeps its guards, and acquires nothing when they refuse', async (method) => {
    const graphql = await start();
    for (const refusedBy of ['class', 'method']) {
      const { errors } = await ask(graphql, `mutation { ${method}(id: "7", refusedBy: "${refusedBy}") }`);
      expect(errors).toMatchObject([{ message: 'Forbidden resource', extensions: { code: 'FORBIDDEN' } }]);
    }
    expect(graphql.acquired).toEqual([]);
  });
});
