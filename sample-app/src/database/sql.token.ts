/** Under which Nest finds the database connection. */
export const SQL = Symbol('SQL');
