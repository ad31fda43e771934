// Columns of reports, as an analyst asks for them: one form, which costs nothing, since devices have paid.

/** The names of a stream's columns of reports. */
export const reportsOf = (stream) => (stream?.columns ?? []).filter(({ kind }) => kind === "report").map(({ name }) => name);

/** Whether there is nothing else to ask for. */
export const isAllReports = (stream) => reportsOf(stream).length > 0 && reportsOf(stream).length === stream.columns.length;

/** Whether SQL speaks of such a column. */
export const readsReports = (sql, stream) => words(sql).some((word) => reportsOf(stream).includes(word));

/** All that can be asked of a column. */
export const formOf = (stream, column) => `SELECT ${named(column)}, COUNT(*) FROM ${stream.name} GROUP BY ${named(column)}`;

const named = (column) => (/^[A-Za-z_][A-Za-z0-9_]*$/.test(column) ? column : `"${column.replaceAll('"', '""')}"`);

/** Names in SQL: quoted ones as they are meant. */
const words = (sql) => [...sql.matchAll(/"((?:[^"]|"")*)"|[\p{L}_][\p{L}\p{N}_]*/gu)].map(([word, quoted]) => quoted?.replaceAll('""', '"') ?? word);
