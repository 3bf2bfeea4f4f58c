import { type ArgumentsHost, Catch, type ExceptionFilter, HttpStatus } from '@nestjs/common';
import { LockBusyError, type LockError, LockShutdownError, LockStoreError, LockWaitTimeoutError } from 'nestjs-redis-lock';
import type { Response } from 'express';

const LOCKED = 423;

/** Answers a busy lock with 423 and a missing Redis with 503: both are worth another try, and neither is a bug. */
@Catch(LockBusyError, LockWaitTimeoutError, LockStoreError, LockShutdownError)
export class LockErrorFilter implements ExceptionFilter<LockError> {
  catch(error: LockError, host: ArgumentsHost): void {
    const busy = error instanceof LockBusyError || error instanceof LockWaitTimeoutError;
    const statusCode = busy ? LOCKED : HttpStatus.SERVICE_UNAVAILABLE;
    const response = host.switchToHttp().getResponse<Response>();
    response.status(statusCode).header('Retry-After', '1').json({ statusCode, code: error.code, message: error.message });
  }
}
