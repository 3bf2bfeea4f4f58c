import {
  Body,
  Controller,
  Get,
  Inject,
  type OnModuleDestroy,
  type OnModuleInit,
  Post,
  Query,
  Req,
  Res,
  SetMetadata,
  type Type,
  UseGuards,
  VERSION_NEUTRAL,
} from '@nestjs/common';
import { ModuleRef, ModulesContainer } from '@nestjs/core';
import { LockBusyError, LockConfigurationError, LockKeyError, LockStoreError } from '../core/lock.errors.js';
import { printable } from '../core/printable.js';
import { messageOf } from '../core/reporter.js';
import { hasOperators, storeWith } from '../core/store/capabilities.js';
import { readHolderText } from '../core/store/holder-text.js';
import { logger } from '../interceptor/lock-logger.js';
import { type LockHolder } from '../core/store/lock-state.js';
import { findLockService } from '../observability/lock-services.js';
import { partsOf } from '../redis-lock.parts.js';
import { type RedisLockService } from '../redis-lock.service.js';
import {
  answer,
  answerJson,
  beginEvents,
  type BoardRequest,
  type BoardResponse,
  isOfAnotherSite,
  linkBase,
  refuseRequest,
  whyNoAction,
} from './requests.js';
import { type BoardMount, type BoardSettings } from './board.options.js';
import { type Job, jobsIn } from '../interceptor/jobs.js';
import { eventText, Feeds } from './live.js';
import { instanceOf, readQuery } from './query.js';
import { BoardTopics, OwnLosses } from './topics.js';
import { pageText, STYLE } from './page/page.js';
import { SCRIPT } from './page/script.js';

/** Provider tokens: the settings of a board, and its path; internal. */
export const BOARD_SETTINGS = Symbol.for('nestjs-redis-lock:board-settings');
export const BOARD_MOUNT = Symbol.for('nestjs-redis-lock:board-mount');

/** How long a browser waits before it reconnects, in milliseconds. */
const RETRY = Buffer.from('retry: 1000\n');
/** How long the answer waits for a run by hand to end. The run itself continues after that. */
const RUN_ANSWER_MS = 1_000;
const MAX_USER = 128;

const MOCKED =
  'Expected RedisLockBoardModule to find the RedisLockService of a RedisLockModule, got a mock of it. In a test, import ' +
  'RedisLockTestingModule.forRoot() instead, or leave the board out.';

/** The routes of a board. Each writes its response itself: the results of the app's interceptors would break the page. */
class BoardController implements OnModuleInit, OnModuleDestroy {
  readonly #feeds: Feeds;
  #service: RedisLockService | undefined;
  #losses: OwnLosses | undefined;
  #topics: BoardTopics | undefined;
  #jobs: readonly Job[] = [];

  constructor(
    @Inject(ModuleRef) private readonly moduleRef: ModuleRef,
    @Inject(ModulesContainer) private readonly modules: ModulesContainer,
    @Inject(BOARD_SETTINGS) private readonly settings: BoardSettings,
    @Inject(BOARD_MOUNT) private readonly mount: BoardMount,
  ) {
    this.#feeds = new Feeds(settings.refreshMs);
  }

  /** @throws LockConfigurationError when the app does not have this lock module */
  onModuleInit(): void {
    const { connection } = this.settings;
    const service = findLockService(this.moduleRef, connection, 'RedisLockBoardModule');
    const parts = partsOf(service);
    if (!parts) throw new LockConfigurationError(MOCKED);
    const { locker, history } = parts;
    const store = storeWith(parts.store, hasOperators, '`RedisLockBoardModule`');
    const losses = new OwnLosses(service.events, readHolderText(locker.instance));
    this.#service = service;
    this.#losses = losses;
    const jobs = jobsIn(this.modules, connection);
    this.#jobs = jobs;
    this.#topics = new BoardTopics({ service, store, hasHistory: history.isWritten, losses, jobs });
  }

  /** Before Nest closes the server, which waits for all open answers. */
  onModuleDestroy(): void {
    this.#losses?.stop();
    this.#feeds.close();
  }

  @Get(['', 'index.html'])
  page(@Req() request: BoardRequest, @Res() response: BoardResponse): void {
    answer(response, 'text/html', pageText(linkBase(request, this.mount.path)));
  }

  @Get('board.js')
  script(@Res() response: BoardResponse): void {
    answer(response, 'text/javascript', SCRIPT);
  }

  @Get('board.css')
  style(@Res() response: BoardResponse): void {
    answer(response, 'text/css', STYLE);
  }

  @Get('events')
  events(
    @Req() request: BoardRequest,
    @Query() given: Readonly<Record<string, unknown>>,
    @Res() response: BoardResponse,
  ): void {
    if (isOfAnotherSite(request)) return refuseRequest(response, 403, 'This request comes from another site.');
    const query = readQuery(given);
    if (typeof query === 'string') return refuseRequest(response, 400, query);
    if (!this.#feeds.isOpen) return refuseRequest(response, 503, 'The app stops, or too many pages are open.');
    const { connection = null, refreshMs, canForceRelease, canRunNow } = this.settings;
    const about = eventText('board', { connection, refreshMs, canForceRelease, canRunNow });
    const stream = beginEvents(response);
    // Nest answers HEAD with the same route: an empty stream would never end.
    if (request.method === 'HEAD') return void stream.end();
    this.#feeds.connect(stream, JSON.stringify(query), () => this.#topics!.read(query), Buffer.concat([RETRY, about]));
  }

  @Post('force-release')
  async forceRelease(
    @Req() request: BoardRequest,
    @Body() body: unknown,
    @Res() response: BoardResponse,
  ): Promise<void> {
    if (!this.settings.canForceRelease) return refuseRequest(response, 404, 'This board does not release locks.');
    const user = await this.#actor(request, response);
    if (user === undefined) return;
    const { key, token } = (body ?? {}) as { readonly key?: unknown; readonly token?: unknown };
    if (typeof key !== 'string') return refuseRequest(response, 400, 'The body has no `key`.');
    if (typeof token !== 'string' || !/^\d+$/.test(token) || !Number.isSafeInteger(Number(token)))
      return refuseRequest(response, 400, 'The body has no `token`: the last fencing token of the lock that was seen.');
    try {
      const wasHeld = await this.#service!.forceRelease(key, { by: user, upToToken: Number(token) });
      const [later] = wasHeld ? [] : (await this.#service!.inspect(key)).holders;
      if (later) return refuseRequest(response, 409, isHeldByAnother(later));
      // Otherwise, the log has the line of the module. Both texts may come from a request.
      if (!wasHeld) logger.warn(printable(`${user} released the lock "${key}" by force; it was not held.`));
      answerJson(response, { wasHeld });
    } catch (error) {
      refuseRequest(response, statusOf(error), messageOf(error));
    }
  }

  @Post('run-now')
  async runNow(@Req() request: BoardRequest, @Body() body: unknown, @Res() response: BoardResponse): Promise<void> {
    if (!this.settings.canRunNow) return refuseRequest(response, 404, 'This board does not run jobs.');
    const user = await this.#actor(request, response);
    if (user === undefined) return;
    const { key, name } = (body ?? {}) as { readonly key?: unknown; readonly name?: unknown };
    const job = this.#jobs.find((one) => one.key === key && one.name === name);
    if (!job) return refuseRequest(response, 400, 'This instance has no job with this `name` and `key`.');
    logger.warn(printable(`${user} runs the job ${job.name} with the lock "${job.key}" by hand.`));
    const fail = (error: unknown): void => {
      // The work may have failed because another lock is busy.
      const isBusy = error instanceof LockBusyError && error.key === job.key;
      if (!isAnswered) return refuseRequest(response, isBusy ? 409 : 500, messageOf(error));
      logger.error(printable(`The job ${job.name}, which ${user} runs by hand, failed: ${messageOf(error)}`));
    };
    let isAnswered = false;
    const answerOnce = (status: number, isRunning: boolean): void => {
      if (!isAnswered) answerJson(response, { isRunning }, status);
      isAnswered = true;
    };
    const timer = setTimeout(answerOnce, RUN_ANSWER_MS, 202, true);
    await job.run().then(() => answerOnce(200, false), fail);
    clearTimeout(timer);
  }

  /** The user behind a request; undefined: it was refused. */
  async #actor(request: BoardRequest, response: BoardResponse): Promise<string | undefined> {
    const problem = whyNoAction(request);
    const user = problem === undefined ? await this.#userOf(request) : undefined;
    const why = problem
      ? `This request does not come from the board. ${problem}`
      : 'The app gave no name for your user.';
    if (user === undefined) refuseRequest(response, 403, why);
    return user;
  }

  async #userOf(request: BoardRequest): Promise<string | undefined> {
    const { user } = this.settings;
    if (!user) return 'board';
    try {
      const name = await user(request);
      // The conversion to bytes replaces lone surrogates, which the history refuses.
      if (typeof name === 'string' && name !== '') return Buffer.from(name.slice(0, MAX_USER)).toString();
      logger.error('The function `actions.user` of RedisLockBoardModule gave no name.');
    } catch (error) {
      logger.error(`The function \`actions.user\` of RedisLockBoardModule failed: ${messageOf(error)}`);
    }
    return undefined;
  }
}

function isHeldByAnother(later: LockHolder): string {
  const { where, fencingToken } = later;
  const who = [instanceOf(later), where].filter(Boolean).join(' ');
  return `Another caller holds this lock by now: ${who}, with the token ${fencingToken}. The holders that you saw are gone. Look again.`;
}

function statusOf(error: unknown): number {
  if (error instanceof LockKeyError) return 400;
  if (error instanceof LockStoreError) return 503;
  throw error;
}

/** What `@ApiExcludeController()` of @nestjs/swagger sets: it keeps the routes of a board out of the API of the app. */
const EXCLUDED_FROM_OPENAPI = ['swagger/apiExcludeController', [true]] as const;

/** Creates the controller of one board: paths and guards of a controller belong to its class. */
export function createBoardController({ path, guards }: BoardMount): Type<unknown> {
  @Controller({ path, version: VERSION_NEUTRAL })
  @UseGuards(...(guards as Type[]))
  @SetMetadata(...EXCLUDED_FROM_OPENAPI)
  class RedisLockBoardController extends BoardController {}
  return RedisLockBoardController;
}
