/** A task of a store that does not concern a single lock: a verb phrase to follow "to". */
export interface Task {
  readonly task: string;
}

/** The subject of a command, as its errors name it: the lock of a key, or a task. */
export type Subject = string | Task;

export const LISTING: Task = { task: 'list the locks' };
export const READING_HISTORY: Task = { task: 'read the history of the locks' };
export const WRITING_HISTORY: Task = { task: 'write the history of the locks' };

/** The subject in a text, to follow a noun such as "reply". */
export const forSubject = (subject: Subject): string =>
  typeof subject === 'string' ? `for the lock "${subject}"` : `when asked to ${subject.task}`;

/** The key in an error about this subject; undefined if it is not a lock. */
export const keyOfSubject = (subject: Subject): string | undefined =>
  typeof subject === 'string' ? subject : undefined;
