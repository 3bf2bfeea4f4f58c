import { type FactoryProvider } from '@nestjs/common';

/** The part of the `TestingModuleBuilder` of \@nestjs/testing that is used; that package is no dependency. */
export interface Overriding {
  overrideProvider(token: unknown): {
    useValue(value: unknown): unknown;
    useFactory(options: { factory: FactoryProvider['useFactory']; inject: FactoryProvider['inject'] }): unknown;
  };
}
