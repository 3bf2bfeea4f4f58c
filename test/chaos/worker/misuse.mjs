/** The codes of errors that no fault causes: the call is wrong, and so is the worker that makes it, or the library. */
export const MISUSE = ['LOCK_CONFIGURATION', 'LOCK_KEY', 'LOCK_REENTRY'];
