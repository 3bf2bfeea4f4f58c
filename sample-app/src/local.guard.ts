import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';

interface LocalRequest {
  readonly method: string;
  readonly headers: Readonly<Record<string, string | undefined>>;
}

const LOCAL_HOST = /^(127\.0\.0\.1|localhost)(:\d+)?$/;

/**
 * Admits the pages and commands of this machine, but no page of another site. An app in production checks instead who is signed in,
 * and what that user may do.
 */
@Injectable()
export class LocalGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const { method, headers } = context.switchToHttp().getRequest<LocalRequest>();
    const { host = '', origin } = headers;
    // A site whose name leads to this machine would have that name here.
    if (!LOCAL_HOST.test(host)) return false;
    if (method === 'GET') return true;
    // Commands send neither; an old browser sends only the origin.
    return (
      ['same-origin', undefined].includes(headers['sec-fetch-site']) && [`http://${host}`, undefined].includes(origin)
    );
  }
}
