/** The injection token of the database connection. */
export const SQL = Symbol('SQL');
