import { type ArgumentsHost, Catch, type ExceptionFilter, HttpStatus } from '@nestjs/common';
import {
  LockBusyError,
  type LockError,
  LockShutdownError,
  LockStoreError,
  LockWaitTimeoutError,
} from 'nestjs-redis-lock';

const LOCKED = 423;

/** What is used of the response of express. */
interface HttpResponse {
  status(code: number): this;
  header(name: string, value: string): this;
  json(body: object): void;
}

/** Answers a busy lock with 423 and a missing Redis with 503: both are worth another try, and neither is a bug. */
@Catch(LockBusyError, LockWaitTimeoutError, LockStoreError, LockShutdownError)
export class LockErrorFilter implements ExceptionFilter<LockError> {
  catch(error: LockError, host: ArgumentsHost): void {
    const busy = error instanceof LockBusyError || error instanceof LockWaitTimeoutError;
    const statusCode = busy ? LOCKED : HttpStatus.SERVICE_UNAVAILABLE;
    const response = host.switchToHttp().getResponse<HttpResponse>();
    response
      .status(statusCode)
      .header('Retry-After', '1')
      .json({ statusCode, code: error.code, message: error.message });
  }
}
