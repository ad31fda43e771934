// Report columns in SQL: one form, which costs nothing, since devices have spent the loss.

/** The names of a stream's columns of reports. */
export const reportsOf = (stream) => (stream?.columns ?? []).filter(({ kind }) => kind === "report").map(({ name }) => name);

/** Return whether all columns are report columns. */
export const isAllReports = (stream) => reportsOf(stream).length > 0 && reportsOf(stream).length === stream.columns.length;

/** Return whether SQL names a report column, outside of texts, comments and other names. */
export function readsReports(sql, stream) {
  const said = words(sql);
  return said.some(({ text }, i) => reportsOf(stream).includes(text) && !isOther(said, i));
}

/** The one query of a report column. */
export const formOf = (stream, column) => `SELECT ${named(column)}, COUNT(*) FROM ${stream.name} GROUP BY ${named(column)}`;

const named = (column) => (/^[A-Za-z_][A-Za-z0-9_]*$/.test(column) ? column : `"${column.replaceAll('"', '""')}"`);

/** Names in SQL, unquoted, and the dots between them; texts and comments are skipped. */
const WORDS = /'(?:[^']|'')*'|--[^\n]*|\/\*[^]*?(?:\*\/|$)|"((?:[^"]|"")*)"|([\p{L}_][\p{L}\p{N}_$]*|\.)/gu;
const words = (sql) => [...sql.matchAll(WORDS)].filter(([, quoted, bare]) => quoted !== undefined || bare)
  .map(([, quoted, bare]) => (quoted === undefined ? { text: bare } : { text: quoted.replaceAll('""', '"'), quoted: true }));

/** Return whether a word names a table or a result: after FROM, JOIN or AS, or before a dot. */
const isOther = (said, i) => said[i + 1]?.text === "." || (i > 0 && !said[i - 1].quoted && /^(from|join|as)$/i.test(said[i - 1].text));
