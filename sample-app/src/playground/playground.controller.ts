import { readFileSync } from 'node:fs';
import {
  BadRequestException,
  Controller,
  Get,
  Header,
  HttpCode,
  type MessageEvent,
  Param,
  Post,
  Sse,
  UseGuards,
} from '@nestjs/common';
import { distinctUntilChanged, interval, map, type Observable, startWith } from 'rxjs';
import { LocalGuard } from '../local.guard.js';
import { INSTANCE_NAMES, type InstanceName } from '../runner/instance-group.js';
import { PlaygroundService } from './playground.service.js';

const LOOK_EVERY_MS = 250;
const POLICY = "default-src 'self'; img-src data:; frame-ancestors 'none'";

const fileOfPage = (name: string): string => readFileSync(new URL(`page/${name}`, import.meta.url), 'utf8');
const [PAGE, SCRIPT, STYLE] = ['page.html', 'page.js', 'page.css'].map(fileOfPage);

const INSTANCE_ACTIONS = ['start', 'freeze', 'thaw', 'kill'] as const;
const REDIS_ACTIONS = { cut: 'cutRedis', mend: 'mendRedis' } as const;

/** A page on which a reader breaks things, and sees what the locks do. */
@Controller()
@UseGuards(LocalGuard)
export class PlaygroundController {
  constructor(private readonly playground: PlaygroundService) {}

  @Get()
  @Header('content-type', 'text/html; charset=utf-8')
  @Header('content-security-policy', POLICY)
  page(): string {
    return PAGE!;
  }

  @Get('page.js')
  @Header('content-type', 'text/javascript; charset=utf-8')
  script(): string {
    return SCRIPT!;
  }

  @Get('page.css')
  @Header('content-type', 'text/css; charset=utf-8')
  style(): string {
    return STYLE!;
  }

  @Sse('events')
  events(): Observable<MessageEvent> {
    const stateNow = (): string => JSON.stringify(this.playground.state);
    return interval(LOOK_EVERY_MS).pipe(
      startWith(0),
      map(stateNow),
      distinctUntilChanged(),
      map((data) => ({ data })),
    );
  }

  @Post('newsletter')
  @HttpCode(200)
  sendNewsletter(): Promise<void> {
    return this.playground.sendNewsletter();
  }

  @Post('orders')
  @HttpCode(200)
  orderTwice(): Promise<void> {
    return this.playground.orderTwice();
  }

  @Post('instances/:name/:action')
  @HttpCode(200)
  async act(@Param('name') name: string, @Param('action') action: string): Promise<void> {
    await this.playground[oneOf(INSTANCE_ACTIONS, action)](oneOf<InstanceName>(INSTANCE_NAMES, name));
  }

  @Post('redis/:action')
  @HttpCode(200)
  actOnRedis(@Param('action') action: string): void {
    this.playground[REDIS_ACTIONS[oneOf(['cut', 'mend'] as const, action)]]();
  }
}

function oneOf<Name extends string>(names: readonly Name[], name: string): Name {
  if (names.includes(name as Name)) return name as Name;
  throw new BadRequestException(`Expected one of ${names.join(', ')}.`);
}
