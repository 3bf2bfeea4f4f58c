/** The reason of every abort, and the error of work that fails. */
export const ABORTED = new Error('aborted by the caller');
export const WORK_FAILED = new Error('the work failed');
