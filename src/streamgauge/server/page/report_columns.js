// Report columns in SQL. They allow one form of query, which costs nothing because devices have spent the loss.

/** Return the names of the report columns of a stream. */
export const reportColumns = (stream) => (stream?.columns ?? []).filter(({ kind }) => kind === "report").map(({ name }) => name);

/** Return whether all columns are report columns. */
export const isAllReports = (stream) => reportColumns(stream).length > 0 && reportColumns(stream).length === stream.columns.length;

/** Return whether SQL names a report column, other than in a string, a comment, a table name or an alias. */
export function readsReports(sql, stream) {
  const tokens = tokenize(sql);
  return tokens.some(({ text }, i) => reportColumns(stream).includes(text) && !isTableOrAlias(tokens, i));
}

/** Return the only query that a report column allows. */
export const buildReportQuery = (stream, column) => `SELECT ${quoteName(column)}, COUNT(*) FROM ${stream.name} GROUP BY ${quoteName(column)}`;

const quoteName = (column) => (/^[A-Za-z_][A-Za-z0-9_]*$/.test(column) ? column : `"${column.replaceAll('"', '""')}"`);

/** Names and dots of SQL, without quotes. Strings and comments are skipped. */
const TOKENS = /'(?:[^']|'')*'|--[^\n]*|\/\*[^]*?(?:\*\/|$)|"((?:[^"]|"")*)"|([\p{L}_][\p{L}\p{N}_$]*|\.)/gu;
const tokenize = (sql) => [...sql.matchAll(TOKENS)].filter(([, quoted, bare]) => quoted !== undefined || bare)
  .map(([, quoted, bare]) => (quoted === undefined ? { text: bare } : { text: quoted.replaceAll('""', '"'), quoted: true }));

/** Return whether a name is that of a table or an alias: after FROM, JOIN or AS, or before a dot. */
const isTableOrAlias = (tokens, i) => tokens[i + 1]?.text === "." || (i > 0 && !tokens[i - 1].quoted && /^(from|join|as)$/i.test(tokens[i - 1].text));
