import type { CanActivate } from '@nestjs/common';
import { RedisLockBoardModule } from '../../lib/board/index.js';

class AdminGuard implements CanActivate {
  canActivate(): boolean {
    return true;
  }
}

/** A request, as an app types it. */
interface AppRequest {
  readonly user: { readonly name: string };
}

RedisLockBoardModule.forRoot({ guard: AdminGuard });
RedisLockBoardModule.forRoot({ guard: [AdminGuard, new AdminGuard()], path: 'ops/locks', imports: [AdminGuard] });
RedisLockBoardModule.forRoot({
  unguarded: true,
  actions: { forceRelease: true, user: ({ user }: AppRequest) => user.name },
});
RedisLockBoardModule.forRoot({ unguarded: true, actions: { user: async ({ user }: AppRequest) => user.name } });
RedisLockBoardModule.forRootAsync({
  guard: AdminGuard,
  inject: ['MS'],
  useFactory: (refreshMs: number) => ({ refreshMs }),
});

// @ts-expect-error a name is a text
RedisLockBoardModule.forRoot({ unguarded: true, actions: { user: () => 7 } });
// @ts-expect-error a name is a text
RedisLockBoardModule.forRoot({ unguarded: true, actions: { user: async () => 7 } });
// @ts-expect-error it is not a guard
RedisLockBoardModule.forRoot({ guard: 'admin' });
// @ts-expect-error Nest needs the path before the factory runs
RedisLockBoardModule.forRootAsync({ unguarded: true, useFactory: () => ({ path: 'locks' }) });
// @ts-expect-error there is no such action
RedisLockBoardModule.forRoot({ unguarded: true, actions: { release: true } });
