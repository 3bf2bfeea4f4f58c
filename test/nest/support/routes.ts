import { Controller, Get, type NestInterceptor, Param, type Type, UseInterceptors } from '@nestjs/common';
import { Work } from './transports.js';

type Handler = (id: string, work: Work) => unknown;

/** A route: its interceptors, from the outermost, and what it does with the id of its path. */
export type Route = readonly [Type<NestInterceptor> | readonly Type<NestInterceptor>[], Handler?];

/** A controller with a route for each path, under the interceptors that are named for it; by default all give the same answer. */
export function routesOf(
  routes: Readonly<Record<string, Type<NestInterceptor> | Route>>,
  answer: Handler = () => 'ran',
): Type {
  @Controller()
  class Routes {
    constructor(readonly work: Work) {}
  }
  for (const [path, route] of Object.entries(routes)) {
    const [interceptors, handler = answer] = Array.isArray(route) ? (route as Route) : [route as Type<NestInterceptor>];
    const value = function run(this: Routes, id: string): unknown {
      return handler(id, this.work);
    };
    const descriptor = { value, configurable: true, writable: true };
    Object.defineProperty(value, 'name', { value: path.split('/')[0] });
    Object.defineProperty(Routes.prototype, path, descriptor);
    Param('id')(Routes.prototype, path, 0);
    for (const decorate of [Get(path), UseInterceptors(...[interceptors].flat())])
      decorate(Routes.prototype, path, descriptor);
  }
  return Routes;
}
