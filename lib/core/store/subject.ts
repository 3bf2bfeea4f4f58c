/** What a store is asked to do that is about no single lock: a verb, to stand behind "to". */
export interface Task {
  readonly task: string;
}

/** What a command is about, as its errors name it: the lock of a key, or a task. */
export type Subject = string | Task;

export const LISTING: Task = { task: 'list the locks' };
export const READING_HISTORY: Task = { task: 'read the history of the locks' };
export const WRITING_HISTORY: Task = { task: 'write the history of the locks' };

/** To stand behind what somebody answered, or sent. */
export const forSubject = (subject: Subject): string =>
  typeof subject === 'string' ? `for the lock "${subject}"` : `when asked to ${subject.task}`;

/** The key that an error of this has; undefined if it is about no lock. */
export const keyOfSubject = (subject: Subject): string | undefined =>
  typeof subject === 'string' ? subject : undefined;
