/** For whom a lock is acquired, as people and metrics see it. */
export interface LockLabel {
  /** Class and method, such as `OrdersService.charge`; empty for a call of the service. */
  readonly where: string;
  /** The key template; undefined for a call of the service. */
  readonly template: string | undefined;
}

export const NO_LABEL: LockLabel = { where: '', template: undefined };
