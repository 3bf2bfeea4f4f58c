import { type ExecutionContext } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { CommandBus, CqrsModule } from '@nestjs/cqrs';
import { Query, Resolver } from '@nestjs/graphql';
import { lockKey } from '../../../lib/index.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { startInstance, Work } from '../support/transports.js';
import { ask as askGraphql, startGraphql } from '../support/transports-graphql.js';
import { ask as askGateway, startGateways } from '../support/transports-ws.js';
import { ChargeOrder, ChargeOrderHandler } from './recipe-cqrs.js';
import { OrdersResolver } from './recipe-graphql.js';
import { Answers, Payments } from './recipe-idempotent.js';
import { Seats } from './recipe-websocket.js';

/** A schema needs a query. */
@Resolver()
class OneQuery {
  @Query(() => String)
  hello(): string {
    return 'hello';
  }
}

afterEach(closeAll);

it('the recipe of a mutation locks its order', async () => {
  const app = await startGraphql([OrdersResolver, OneQuery]);
  const id = freshKey();
  const { data } = await askGraphql(app, 'mutation ($id: String!) { charge(id: $id) }', { id });
  expect(data).toEqual({ charge: `charged ${id}` });
  expect(app.acquired).toEqual([`order:${id}`]);
});

it('the recipe of a gateway books a seat once', async () => {
  const app = await startGateways([Seats]);
  const seat = freshKey();
  const answers = await Promise.all([askGateway(app, 'book', { seat }), askGateway(app, 'book', { seat })]);
  expect(answers.map(({ event }) => event).toSorted()).toEqual(['booked', 'refused']);
  expect(app.acquired).toEqual([`seat:${seat}`, `seat:${seat}`]);
});

it('the recipe of a command locks its order', async () => {
  const app = await startInstance({ imports: [CqrsModule], providers: [ChargeOrderHandler] }, new Work());
  const id = freshKey();
  expect(await app.app.get(CommandBus).execute(new ChargeOrder(id))).toBe(`charged ${id}`);
  expect(app.acquired).toEqual([`order:${id}`]);
});

describe('the recipe of an idempotent endpoint', () => {
  /** In place of a guard that checks who is signed in. */
  const signIn = { canActivate: (context: ExecutionContext) => Boolean(signedIn(context.switchToHttp().getRequest())) };
  const signedIn = (request: { headers: Record<string, string>; user?: object }) =>
    (request.user = { id: request.headers['x-user'] });

  const start = async () => {
    const providers = [Answers, { provide: APP_GUARD, useValue: signIn }];
    const { app, acquired } = await startInstance({ controllers: [Payments], providers }, new Work());
    const url = `${await app.getUrl()}/payments`;
    const pay = (headers: Record<string, string>, user = 'ann') =>
      fetch(url, { method: 'POST', headers: { 'x-user': user, ...headers } });
    return { acquired, payments: app.get(Payments), pay };
  };

  it('charges once for requests that are repeated', async () => {
    const { acquired, payments, pay } = await start();
    const key = freshKey();
    const answers = await Promise.all([1, 2, 3].map(() => pay({ 'idempotency-key': key })));
    expect(await Promise.all(answers.map((answer) => answer.text()))).toEqual(['charge 1', 'charge 1', 'charge 1']);
    expect(payments.charges).toBe(1);
    expect(acquired).toEqual(Array.from({ length: 3 }, () => lockKey`payment:${'ann'}:${key}`));
  });

  it('gives no user the answer of another one', async () => {
    const { payments, pay } = await start();
    const key = freshKey();
    const answers = await Promise.all(['ann', 'bob'].map((user) => pay({ 'idempotency-key': key }, user)));
    const texts = await Promise.all(answers.map((answer) => answer.text()));
    expect(texts.toSorted()).toEqual(['charge 1', 'charge 2']);
    expect(payments.charges).toBe(2);
  });

  it('answers 400 to a request without a key', async () => {
    const { payments, pay } = await start();
    expect((await pay({})).status).toBe(400);
    expect(payments.charges).toBe(0);
  });
});
