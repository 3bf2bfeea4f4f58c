import { type FactoryProvider } from '@nestjs/common';

/** What is used of the `TestingModuleBuilder` of \@nestjs/testing, which is no dependency. */
export interface Overriding {
  overrideProvider(token: unknown): {
    useValue(value: unknown): unknown;
    useFactory(options: { factory: FactoryProvider['useFactory']; inject: FactoryProvider['inject'] }): unknown;
  };
}
