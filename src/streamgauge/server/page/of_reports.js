// Columns of reports, as an analyst asks for them: one form, which costs nothing, since devices have paid.

/** The names of a stream's columns of reports. */
export const reportsOf = (stream) => (stream?.columns ?? []).filter(({ kind }) => kind === "report").map(({ name }) => name);

/** Whether there is nothing else to ask for. */
export const isAllReports = (stream) => reportsOf(stream).length > 0 && reportsOf(stream).length === stream.columns.length;

/** Whether SQL speaks of such a column: not in a text or a comment, nor as the name of something else. */
export function readsReports(sql, stream) {
  const said = words(sql);
  return said.some(({ text }, i) => reportsOf(stream).includes(text) && !isOther(said, i));
}

/** All that can be asked of a column. */
export const formOf = (stream, column) => `SELECT ${named(column)}, COUNT(*) FROM ${stream.name} GROUP BY ${named(column)}`;

const named = (column) => (/^[A-Za-z_][A-Za-z0-9_]*$/.test(column) ? column : `"${column.replaceAll('"', '""')}"`);

/** Names in SQL, quoted ones as they are meant, and the dots between them; texts and comments are passed over. */
const WORDS = /'(?:[^']|'')*'|--[^\n]*|\/\*[^]*?(?:\*\/|$)|"((?:[^"]|"")*)"|([\p{L}_][\p{L}\p{N}_$]*|\.)/gu;
const words = (sql) => [...sql.matchAll(WORDS)].filter(([, quoted, bare]) => quoted !== undefined || bare)
  .map(([, quoted, bare]) => (quoted === undefined ? { text: bare } : { text: quoted.replaceAll('""', '"'), quoted: true }));

/** Whether a word names a table or a result: after FROM, JOIN or AS, or before a dot. */
const isOther = (said, i) => said[i + 1]?.text === "." || (i > 0 && !said[i - 1].quoted && /^(from|join|as)$/i.test(said[i - 1].text));
