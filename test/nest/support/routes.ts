import { Controller, Get, type NestInterceptor, type Type, UseInterceptors } from '@nestjs/common';

/** A controller with a route for each path, under the interceptor that is named for it, which gives the same answer. */
export function routesOf(
  interceptors: Readonly<Record<string, Type<NestInterceptor>>>,
  answer = (): unknown => 'ran',
): Type {
  @Controller()
  class Routes {}
  for (const [path, interceptor] of Object.entries(interceptors)) {
    const descriptor = { value: () => answer(), configurable: true, writable: true };
    Object.defineProperty(Routes.prototype, path, descriptor);
    for (const decorate of [Get(path), UseInterceptors(interceptor)]) decorate(Routes.prototype, path, descriptor);
  }
  return Routes;
}
