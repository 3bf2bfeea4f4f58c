import 'reflect-metadata';

/** Gives the stand-in of a method its metadata, so that routes, schedules and guards stay as they are. */
export function copyMetadata(from: object, to: object): void {
  for (const key of Reflect.getMetadataKeys(from) as unknown[]) {
    Reflect.defineMetadata(key, Reflect.getMetadata(key, from), to);
  }
}
