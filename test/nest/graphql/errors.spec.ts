import { Catch, ForbiddenException, UseFilters } from '@nestjs/common';
import { Args, type GqlExceptionFilter, Query, Resolver } from '@nestjs/graphql';
import { GraphQLError } from 'graphql';
import { Locked, LockError } from '../../../lib/index.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { type GraphqlApp, ask, startGraphql } from '../support/transports-graphql.js';

@Catch(LockError)
class LockErrors implements GqlExceptionFilter<LockError> {
  catch({ code }: LockError): GraphQLError {
    return new GraphQLError('Try again later', { extensions: { code } });
  }
}

const ERRORS: Record<string, () => Error> = {
  GraphQLError: () => new GraphQLError('sold out', { extensions: { code: 'SOLD_OUT' } }),
  HttpException: () => new ForbiddenException('not yours'),
  Error: () => new Error('broken'),
};

@Resolver()
class Failures {
  @Query(() => String)
  async failUnlocked(@Args('id') name: string): Promise<string> {
    throw ERRORS[name]!();
  }

  @Query(() => String)
  @Locked('order:<0>')
  async failAbove(@Args('id') name: string): Promise<string> {
    throw ERRORS[name]!();
  }

  @Locked('order:<0>')
  @Query(() => String)
  async failBelow(@Args('id') name: string): Promise<string> {
    throw ERRORS[name]!();
  }

  @Query(() => String, { nullable: true })
  @Locked('order:<0>', { ifBusy: 'throw' })
  async failBusy(@Args('id') _id: string): Promise<string> {
    return 'ran';
  }

  @Query(() => String, { nullable: true })
  @UseFilters(LockErrors)
  @Locked('order:<0>', { ifBusy: 'throw' })
  async failFiltered(@Args('id') _id: string): Promise<void> {}
}

const start = (): Promise<GraphqlApp> => startGraphql([Failures]);

afterEach(closeAll);

describe('an error', () => {
  it.each(Object.keys(ERRORS))('%s of the method reaches the client as without a lock', async (name) => {
    const graphql = await start();
    const fail = async (how: string) => (await ask(graphql, `{ answer: fail${how}(id: "${name}") }`)).errors;
    const unlocked = await fail('Unlocked');
    expect(unlocked).toMatchObject([{ message: ERRORS[name]!().message, path: ['answer'] }]);
    for (const how of ['Above', 'Below']) expect(await fail(how)).toEqual(unlocked);
  });

  it('LockBusyError reaches the client with its message as INTERNAL_SERVER_ERROR, and other fields as data', async () => {
    const [graphql, id] = [await start(), freshKey()];
    await graphql.locks.acquire(`order:${id}`);
    const { data, errors } = await ask(graphql, `{ failBusy(id: "${id}") free: failBusy(id: "${freshKey()}") }`);
    expect(data).toEqual({ failBusy: null, free: 'ran' });
    const message: unknown = expect.stringContaining(`The lock "order:${id}"`);
    expect(errors).toMatchObject([{ message, path: ['failBusy'], extensions: { code: 'INTERNAL_SERVER_ERROR' } }]);
  });

  it('LockBusyError reaches the client as an exception filter maps it', async () => {
    const [graphql, id] = [await start(), freshKey()];
    await graphql.locks.acquire(`order:${id}`);
    const { errors } = await ask(graphql, `{ failFiltered(id: "${id}") }`);
    expect(errors).toMatchObject([{ message: 'Try again later', extensions: { code: 'LOCK_BUSY' } }]);
  });
});
