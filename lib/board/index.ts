export { RedisLockBoardModule } from './redis-lock-board.module.js';
export type {
  BoardActions,
  BoardGuard,
  RedisLockBoardAsyncOptions,
  RedisLockBoardFactoryOptions,
  RedisLockBoardMountOptions,
  RedisLockBoardOptions,
} from './board.options.js';
