// Device of the local model for browsers: one module without dependencies.
//
//   import { buildDevice } from "./client.js";
//   const collection = await (await fetch("/api/collection")).json();
//   const device = buildDevice(collection, "emoji", { maxLoss: "2", name: "favourite emoji" });
//   const post = (body, key) => fetch("/api/reports", { method: "POST", body, headers: { "Batch-Key": key } });
//   await device.send("🔥", post); // at every visit: sends the pending report, if there is one
//
// Privacy. The page sends a report, which is drawn here. For any two items its probabilities differ by at most a factor
// of e^epsilon. Probabilities are k/2^32 with the k of the settings, which are rounded towards no information. A coin is
// one word of crypto.getRandomValues below k. A die is one word below the largest multiple of its sides; other words are
// drawn again. There is no other source of randomness. If it is missing or returns zeros, EntropyError is thrown and
// nothing is sent. Settings come from the collector, who is not trusted. They are copied, and rejected if they are of no
// claim, or if their probabilities lose more than the stated epsilon, which is "p" or "p/q" without a sign or a zero. The
// page decides whether to agree to that epsilon. The page is trusted with the item.
//
// Everything but the draws equals Python bit for bit: hashes, reports, messages (tests/localdp/vectors.json).

export class EntropyError extends Error {}
export class BudgetExhaustedError extends Error {}
export class InvalidSaveError extends Error {}

/** Settings that are not of this collection (`mismatch`), or a loss above the agreed one (`loss_not_agreed`). */
export class CollectionError extends Error {
  constructor(message, code = "mismatch") { super(message); this.code = code; }
}

/** A report beyond the most of a device (`report_limit`), or before its time (`too_soon`, in `waitSeconds`). */
export class ReportPaceError extends Error {
  constructor(message, code = "report_limit", waitSeconds = null) { super(message); Object.assign(this, { code, waitSeconds }); }
}

// --- BLAKE2b (RFC 7693), in pairs of 32-bit words: low, high ---

const INITIAL_STATE = [0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n]
  .flatMap((word) => [Number(word & 0xffffffffn), Number(word >> 32n)]);
const MESSAGE_ORDERS = ["0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d",
  "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0"]
  .map((order) => [...order].map((place) => 2 * parseInt(place, 16)));
const LANES = [[0, 8, 16, 24], [2, 10, 18, 26], [4, 12, 20, 28], [6, 14, 22, 30],
  [0, 10, 20, 30], [2, 12, 22, 24], [4, 14, 16, 26], [6, 8, 18, 28]];
const BLOCK_BYTES = 128;

function add(into, a, from, b) {
  const low = into[a] + from[b];
  into[a + 1] += from[b + 1] + (low > 0xffffffff ? 1 : 0);
  into[a] = low;
}

/** v[d] = (v[d] ^ v[a]), rotated right by `bits`. */
function rotateRight(v, d, a, bits) {
  const low = bits < 32 ? v[d] ^ v[a] : v[d + 1] ^ v[a + 1];
  const high = bits < 32 ? v[d + 1] ^ v[a + 1] : v[d] ^ v[a];
  const by = bits % 32;
  v[d] = by ? (low >>> by) | (high << (32 - by)) : low;
  v[d + 1] = by ? (high >>> by) | (low << (32 - by)) : high;
}

function mix(v, words, lane, x, y) {
  const a = lane[0], b = lane[1], c = lane[2], d = lane[3];
  add(v, a, v, b); add(v, a, words, x); rotateRight(v, d, a, 32);
  add(v, c, v, d); rotateRight(v, b, c, 24);
  add(v, a, v, b); add(v, a, words, y); rotateRight(v, d, a, 16);
  add(v, c, v, d); rotateRight(v, b, c, 63);
}

function compress(state, words, count, last) {
  const v = new Uint32Array(32);
  v.set(state);
  v.set(INITIAL_STATE, 16);
  v[24] ^= count;
  if (last) [v[28], v[29]] = [~v[28], ~v[29]];
  for (let round = 0; round < 12; round += 1) {
    const order = MESSAGE_ORDERS[round % 10];
    for (let lane = 0; lane < 8; lane += 1) mix(v, words, LANES[lane], order[2 * lane], order[2 * lane + 1]);
  }
  for (let i = 0; i < 16; i += 1) state[i] ^= v[i] ^ v[i + 16];
}

/** Return the digest of fewer than 2^32 bytes, with a key and a purpose of 16 bytes, as hashlib.blake2b does. */
export function blake2b(data, { size = 64, key = new Uint8Array(), person = new Uint8Array(16) } = {}) {
  const keyed = key.length ? BLOCK_BYTES : 0;
  const padded = new Uint8Array(Math.max(1, Math.ceil((keyed + data.length) / BLOCK_BYTES)) * BLOCK_BYTES);
  padded.set(key);
  padded.set(data, keyed);
  const parts = toWords(padded);
  const state = Uint32Array.from(INITIAL_STATE);
  state[0] ^= 0x01010000 ^ (key.length << 8) ^ size;
  toWords(person).forEach((word, i) => { state[12 + i] ^= word; });
  for (let end = BLOCK_BYTES; end <= padded.length; end += BLOCK_BYTES) {
    const last = end === padded.length;
    compress(state, parts.subarray((end - BLOCK_BYTES) / 4, end / 4), last ? keyed + data.length : end, last);
  }
  return new Uint8Array(size).map((_, i) => state[i >> 2] >>> (8 * (i % 4)));
}

const toWords = (bytes) => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  return new Uint32Array(bytes.length / 4).map((_, i) => view.getUint32(4 * i, true));
};

// --- Hashes: h_j(x) = ((a x^2 + b x + c) mod 2^61 - 1) mod width ---

const PRIME = (1n << 61n) - 1n;
const ITEM_PURPOSE = encodeText("sg.localdp.item\0");
const HASH_PURPOSE = encodeText("sg.localdp.hash\0");

/** Encode text as UTF-8; a lone surrogate becomes U+FFFD. */
function encodeText(text) { return new TextEncoder().encode(text); }

/** Convert up to 8 little-endian bytes to an integer, and back. */
function toInteger(bytes) {
  const padded = new Uint8Array(8);
  padded.set(bytes);
  return new DataView(padded.buffer).getBigUint64(0, true);
}

function toBytes(value, size) {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, BigInt(value), true);
  return new Uint8Array(view.buffer, 0, size);
}

/** Return the text of an item: text, or an integer below 2^63 (from 2^53 on a BigInt). Anything else, such as a boolean or
 * a missing value, is the empty text, since no item is rejected. 7 and 7.0 are one item, as in Python. */
function toText(item) {
  const small = typeof item === "bigint" && item === BigInt.asIntN(64, item) && item !== -(2n ** 63n);
  return typeof item === "string" || small || Number.isSafeInteger(item) ? String(item) : "";
}

/** Return the hash of an item, below 2^61 - 1. */
export function hashItem(seed, item) {
  const found = toInteger(blake2b(encodeText(toText(item)), { size: 8, key: toBytes(seed, 8), person: ITEM_PURPOSE })) & PRIME;
  return found === PRIME ? 0n : found;
}

/** Return the coefficients of hash j. */
export function coefficients(seed, j) {
  for (let attempt = 0; ; attempt += 1) {
    const data = Uint8Array.from([...toBytes(j, 8), attempt]);
    const digest = blake2b(data, { size: 24, key: toBytes(seed, 8), person: HASH_PURPOSE });
    const found = [0, 8, 16].map((start) => toInteger(digest.subarray(start, start + 8)) & PRIME);
    if (!found.includes(PRIME)) return found;
  }
}

/** Return the column of an item under hash j. */
export function findColumn({ seed, width }, j, item) {
  const [a, b, c] = coefficients(seed, j);
  const x = hashItem(seed, item);
  return Number((((a * x + b) * x + c) % PRIME) % BigInt(width));
}

// --- Randomness: the cryptographic generator of the platform alone ---

const WORD_VALUES = 2 ** 32;
const MAX_CALL_WORDS = 2 ** 14; // words per call, which returns at most 65,536 bytes
const MIN_CHECKED_WORDS = 8; // words that are all zero with probability 2^-256

function drawWords(size) {
  const source = globalThis.crypto;
  if (typeof source?.getRandomValues !== "function") throw new EntropyError("crypto.getRandomValues must be there, got a platform without it");
  const drawn = new Uint32Array(Math.max(size, MIN_CHECKED_WORDS));
  for (let start = 0; start < drawn.length; start += MAX_CALL_WORDS) source.getRandomValues(drawn.subarray(start, start + MAX_CALL_WORDS));
  if (drawn.every((word) => word === 0)) throw new EntropyError("crypto.getRandomValues must give random bytes, got zeros");
  return drawn.subarray(0, size);
}

/** Return booleans that are true with probability k/2^32. */
const tossCoins = (k, size) => Array.from(drawWords(size), (word) => word < k);
const tossCoin = (k) => tossCoins(k, 1)[0];

/** Return an integer from 0 to sides - 1, uniform. */
function rollDie(sides) {
  const limit = Math.floor(WORD_VALUES / sides) * sides;
  for (;;) { const [word] = drawWords(1); if (word < limit) return word % sides; }
}

// --- Protocols: settings, and the draw of a report ---
//
//   privatise(item)             one report, size bytes
//   encode(item, ...drawn)      the same for given draws
//   likelihood(item, report)    proportional to the probability of the report
//   loss                        ln of the largest such ratio, by `chances`

/** Return ln of the ratio of a side with probability k/2^32 to one of `others` sides, which share the rest. */
const logRatio = (k, others = 1) => Math.log((k * others) / (WORD_VALUES - k));
/** Return a side if it is true, else one of the others, which are numbered without it. */
const respond = (side, isTrue, other) => (isTrue ? side : other + (other >= side));
/** Return the index of an item on a list, by its text; -1 if it is not on it. */
const findIndex = (items, item) => items.map((each) => hex(encodeText(toText(each)))).indexOf(hex(encodeText(toText(item))));
const parity = (bits) => { let sum = 0; for (let rest = bits; rest; rest &= rest - 1) sum ^= 1; return sum; };
const bytesFor = (codes) => Math.max(1, Math.ceil(Math.log2(codes) / 8));
const packBits = (bits) => new Uint8Array(Math.ceil(bits.length / 8)).map((_, i) => bits.slice(8 * i, 8 * i + 8).reduceRight((byte, bit) => 2 * byte + bit, 0));
const readBit = (bytes, i) => (bytes[i >> 3] >> (i % 8)) & 1;

const isInteger = (least, most) => (value) => Number.isSafeInteger(value) && value >= least && value <= most;
const areDistinct = (texts) => new Set(texts).size === texts.length;
const isItem = (item) => typeof item === "string" || Number.isSafeInteger(item);
/** Rules of the settings, by kind. */
const HASH_SETTINGS = { hashes: isInteger(1, 2 ** 20), width: isInteger(2, 2 ** 20), seed: isInteger(0, 2 ** 53 - 1) };
const HADAMARD_SETTINGS = { ...HASH_SETTINGS, width: (width) => HASH_SETTINGS.width(width) && (width & (width - 1)) === 0 };
const LIST_SETTINGS = { items: (items) => Array.isArray(items) && isInteger(2, 2 ** 20)(items.length) && items.every(isItem) && areDistinct(items.map(String)) };
const WORD_SETTINGS = { ...HADAMARD_SETTINGS, length: isInteger(1, 2 ** 10), step: isInteger(1, 2 ** 10),
  alphabet: (letters) => typeof letters === "string" && letters !== "" && areDistinct([...letters]) && !/[\0\p{Cs}]/u.test(letters) };

class CountMeanSketch {
  static settings = HASH_SETTINGS;
  get loss() { return 2 * Math.abs(logRatio(this.chances.flip)); }
  get rowSize() { return bytesFor(this.hashes); }
  get size() { return this.rowSize + Math.ceil(this.width / 8); }

  privatise(item) {
    return this.encode(item, rollDie(this.hashes), tossCoins(this.chances.flip, this.width));
  }

  encode(item, row, flips) {
    const own = findColumn(this, row, item);
    return Uint8Array.from([...toBytes(row, this.rowSize), ...packBits(flips.map((flip, column) => flip ^ (column === own)))]);
  }

  likelihood(item, report) {
    const row = Number(toInteger(report.subarray(0, this.rowSize)));
    const { flip } = this.chances;
    return readBit(report.subarray(this.rowSize), findColumn(this, row, item)) ? (WORD_VALUES - flip) / flip : flip / (WORD_VALUES - flip);
  }
}

class HadamardCountMeanSketch {
  static settings = HADAMARD_SETTINGS;
  get loss() { return Math.abs(logRatio(this.chances.flip)); }
  get size() { return bytesFor(2 * this.hashes * this.width); }

  privatise(item) {
    return this.encode(item, rollDie(this.hashes), rollDie(this.width), tossCoin(this.chances.flip));
  }

  encode(item, row, line, flipped) {
    const negative = parity(line & findColumn(this, row, item)) ^ flipped;
    return toBytes((row * this.width + line) * 2 + 1 - negative, this.size);
  }

  /** Return the row, line and sign of a report. */
  decode(report) {
    const code = Number(toInteger(report));
    const cell = Math.floor(code / 2);
    return { row: Math.floor(cell / this.width), line: cell % this.width, negative: 1 - (code % 2) };
  }

  likelihood(item, report) {
    const { row, line, negative } = this.decode(report);
    const flipped = parity(line & findColumn(this, row, item)) !== negative;
    return (flipped ? this.chances.flip : WORD_VALUES - this.chances.flip) / WORD_VALUES;
  }
}

class LocalHashing {
  static settings = HASH_SETTINGS;
  get loss() { return Math.abs(logRatio(this.chances.kept, this.width - 1)); }
  get size() { return bytesFor(this.hashes * this.width); }

  privatise(item) {
    return this.encode(item, rollDie(this.hashes), tossCoin(this.chances.kept), rollDie(this.width - 1));
  }

  encode(item, row, isTrue, other) {
    return toBytes(row * this.width + respond(findColumn(this, row, item), isTrue, other), this.size);
  }

  likelihood(item, report) {
    const code = Number(toInteger(report));
    const isTrue = findColumn(this, Math.floor(code / this.width), item) === code % this.width;
    return (isTrue ? this.chances.kept : (WORD_VALUES - this.chances.kept) / (this.width - 1)) / WORD_VALUES;
  }
}

class RandomisedResponse {
  static settings = LIST_SETTINGS;
  get loss() { return Math.abs(logRatio(this.chances.kept, this.items.length - 1)); }
  get size() { return bytesFor(this.items.length); }

  privatise(item) {
    const sides = this.items.length;
    return this.encode(item, tossCoin(this.chances.kept), rollDie(sides - 1), rollDie(sides));
  }

  /** Encode with `instead` for an item that is not on the list. */
  encode(item, isTrue, other, instead = 0) {
    const own = findIndex(this.items, item);
    return toBytes(respond(own < 0 ? instead : own, isTrue, other), this.size);
  }

  likelihood(item, report) {
    const [own, sides] = [findIndex(this.items, item), this.items.length];
    if (own < 0) return 1 / sides;
    return (own === Number(toInteger(report)) ? this.chances.kept : (WORD_VALUES - this.chances.kept) / (sides - 1)) / WORD_VALUES;
  }
}

class UnaryEncoding {
  static settings = LIST_SETTINGS;
  get loss() { return Math.abs(logRatio(this.chances.own) - logRatio(this.chances.flip)); }
  get size() { return Math.ceil(this.items.length / 8); }

  privatise(item) {
    return this.encode(item, tossCoin(this.chances.own), tossCoins(this.chances.flip, this.items.length));
  }

  encode(item, own, flips) {
    const at = findIndex(this.items, item);
    return packBits(flips.map((flip, column) => Number(column === at ? own : flip)));
  }

  likelihood(item, report) {
    const [at, { own, flip }] = [findIndex(this.items, item), this.chances];
    if (at < 0) return 1;
    return readBit(report, at) ? own / flip : (WORD_VALUES - own) / (WORD_VALUES - flip);
  }
}

class HadamardResponse {
  static settings = LIST_SETTINGS;
  get loss() { return Math.abs(logRatio(this.chances.flip)); }
  get codes() { return 2 ** (Math.floor(Math.log2(this.items.length)) + 1); }
  get size() { return bytesFor(this.codes); }

  privatise(item) {
    return this.encode(item, rollDie(this.codes), tossCoin(this.chances.flip));
  }

  encode(item, code, flipped) {
    const row = findIndex(this.items, item) + 1;
    return toBytes(parity(code & row) ^ flipped ? code ^ (row & -row) : code, this.size);
  }

  likelihood(item, report) {
    const row = findIndex(this.items, item) + 1;
    if (row === 0) return 0.5;
    return (parity(Number(toInteger(report)) & row) ? this.chances.flip : WORD_VALUES - this.chances.flip) / WORD_VALUES;
  }
}

/** Report of words that are on no list: the prefix of a random level, by a sketch of that level. */
class HeavyHitters {
  static settings = WORD_SETTINGS;
  get loss() { return Math.abs(logRatio(this.chances.flip)); }
  get levels() { return Math.ceil(this.length / this.step); }
  get each() { return 2 * this.hashes * this.width; }
  get size() { return bytesFor(this.levels * this.each); }

  sketch(level) {
    const { hashes, width, chances, seed } = this;
    return Object.assign(new HadamardCountMeanSketch(), { hashes, width, chances, seed: seed + level });
  }

  /** Return a prefix. Letters outside the alphabet are dropped, the word is cut, and NUL marks its end. */
  prefix(item, level) {
    const letters = new Set(this.alphabet);
    const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(encodeText(toText(item)));
    const word = Array.from(text).filter((letter) => letters.has(letter)).slice(0, this.length);
    const end = (level + 1) * this.step;
    return word.slice(0, end).join("") + (word.length < end && level < this.levels - 1 ? "\0" : "");
  }

  privatise(item) {
    return this.encode(item, rollDie(this.levels), rollDie(this.hashes), rollDie(this.width), tossCoin(this.chances.flip));
  }

  encode(item, level, ...drawn) {
    const code = toInteger(this.sketch(level).encode(this.prefix(item, level), ...drawn));
    return toBytes(level * this.each + Number(code), this.size);
  }

  likelihood(item, report) {
    const code = Number(toInteger(report));
    const level = Math.floor(code / this.each);
    const sketch = this.sketch(level);
    return sketch.likelihood(this.prefix(item, level), toBytes(code % this.each, sketch.size));
  }
}

const PROTOCOLS = { CountMeanSketch, HadamardCountMeanSketch, LocalHashing, RandomisedResponse, UnaryEncoding, HadamardResponse, HeavyHitters };

/** Return the frozen claim of the settings of a column. Settings of no claim, or whose chances lose more than their
 * epsilon, are rejected. */
export function parseMechanism(settings) {
  const given = JSON.parse(JSON.stringify(settings) ?? "null");
  if (given?.settings !== undefined && given.protocol === undefined) throw new Error("settings must be those of a column, as column.settings has them, got the column");
  if (given?.constructor !== Object) throw new Error(`settings must be those of a column, as /api/collection returns them, got ${describe(settings)}`);
  if (!Object.hasOwn(PROTOCOLS, given.protocol)) throw new Error(`protocol must be one of ${Object.keys(PROTOCOLS).join(", ")}, got ${given.protocol}`);
  const Protocol = PROTOCOLS[given.protocol];
  const { protocol, epsilon, chances, fingerprint: print, ...more } = given;
  checkSettings(Protocol.settings, more);
  const claim = Object.assign(new Protocol(), { protocol, epsilon, chances, fingerprint: print, ...more });
  checkCells(claim);
  if (claim instanceof HeavyHitters) checkSpelling(claim);
  checkLoss(claim);
  if (print !== fingerprint(given)) throw new CollectionError(`fingerprint must be ${fingerprint(given)}, got ${print}`);
  [claim.chances, claim.items ?? [], claim].forEach(Object.freeze);
  return claim;
}

function checkSettings(known, given) {
  const wrong = Object.keys(known).find((name) => !known[name](given[name])) ?? Object.keys(given).find((name) => !Object.hasOwn(known, name));
  if (wrong !== undefined) throw new Error(`${wrong} must be as a claim has it, got ${JSON.stringify(given[wrong])}`);
}

function checkCells({ hashes = 1, width = 1, levels = 1 }) {
  if (hashes * width * levels > 2 ** 30) throw new Error(`hashes must be at most 2**30 / (width x levels), got ${hashes}`);
}

function checkSpelling({ alphabet, length, step, levels, seed }) {
  if (step > length) throw new Error(`step must be at most the length, ${length}, got ${step}`);
  if (seed > 2 ** 53 - 1 - levels) throw new Error(`seed must be at most 2**53 - 1 - ${levels} levels, got ${seed}`);
  let ways = 1;
  for (let size = 0; size < step && ways <= 2 ** 16; size += 1) ways = ways * [...alphabet].length + 1;
  if (ways > 2 ** 16) throw new Error(`step must be such that a prefix has at most 2**16 continuations, got ${step}`);
}

/** A threshold that is off by 1 loses about 4/2^32 more. Logarithms are right to about 1e-15. */
const LOSS_TOLERANCE = 1e-13;

function checkLoss(claim) {
  const [numerator, denominator] = parseFraction(claim.epsilon).map(Number);
  const thresholds = Object.values(claim.chances ?? {});
  const maxLoss = numerator / denominator + LOSS_TOLERANCE * Math.max(1, numerator / denominator);
  if (!(thresholds.length && thresholds.every(isInteger(1, WORD_VALUES - 1)) && claim.loss <= maxLoss)) throw new Error(`chances must lose at most epsilon ${claim.epsilon}, got others`);
}

// --- Messages: "SGR1", the fingerprint of the settings, reports ---

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const unhex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
/** Return text for error messages: the type alone if the value may be private. */
const describeType = (value) => (Object(value) === value ? value.constructor?.name ?? "an object" : typeof value);
const describe = (value) => (typeof value === "function" ? value.name : Object(value) === value ? describeType(value) : JSON.stringify(value) ?? String(value));
const sortKeys = (_, value) => (value?.constructor === Object ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))) : value);
const fingerprint = ({ fingerprint: _, ...settings }) => hex(blake2b(encodeText(JSON.stringify(settings, sortKeys)), { size: 32 }).subarray(0, 4));

export function message(claim, reports) {
  if (!Array.isArray(reports)) throw new Error(`reports must be a list, as in message(claim, [report]), got ${describeType(reports)}`);
  const wrong = reports.find((report) => !(report instanceof Uint8Array && report.length === claim.size));
  if (wrong !== undefined) throw new Error(`reports must be Uint8Arrays of ${claim.size} bytes each, got ${describeType(wrong)}`);
  return Uint8Array.from([...encodeText("SGR1"), ...unhex(claim.fingerprint), ...reports.flatMap((report) => [...report])]);
}

// --- A device: its storage has its reports and its spent loss, and is secret ---

/** Parse a loss above 0, "p" or "p/q". Nothing else is read as a loss. */
function parseFraction(text, name = "epsilon") {
  if (typeof text !== "string" || !/^[1-9]\d*(\/[1-9]\d*)?$/.test(text)) throw new Error(`${name} must be "p" or "p/q" of whole numbers above 0, as text like "8", got ${describe(text)}`);
  return text.split("/").concat("1").slice(0, 2).map(BigInt);
}

const gcd = (a, b) => (b === 0n ? a : gcd(b, a % b));
const addFractions = ([a, b], [c, d]) => formatFraction(a * d + c * b, b * d);
/** Return "p/q" in lowest terms, or "p". */
function formatFraction(numerator, denominator) {
  const shared = gcd(numerator, denominator);
  return denominator === shared ? `${numerator / shared}` : `${numerator / shared}/${denominator / shared}`;
}

const exceeds = ([a, b], [c, d]) => a * d > c * b;
const parseSpent = (spent) => (spent === undefined ? [0n, 1n] : parseFraction(spent));

// A policy: next(memory, claim, item) returns a report and the loss spent with it, and writes nothing.
// remaining(memory, claim) returns the number of further reports in the budget. check(memory, claim) is optional and
// rejects a collection.

/** Policy: send the first report again. All copies together cost epsilon once, also if the item changes. */
export class Repeat {
  check({ spent_epsilon: spent, collection }, { fingerprint: own }) {
    if (spent !== undefined && collection !== own) throw new CollectionError(`collection must be the one that was reported to, ${collection}, got ${own}`);
  }

  next(memory, claim, item) {
    this.check(memory, claim);
    const { spent_epsilon: spent, last_report: report } = memory;
    return spent === undefined ? { report: claim.privatise(item), spent: formatFraction(...parseFraction(claim.epsilon)) } : { report: unhex(report), spent };
  }

  remaining({ spent_epsilon: spent, collection }, { fingerprint: own }) { return spent === undefined || collection === own ? Infinity : 0; }
}

/** Policy: draw each report, and charge it before it is sent, up to the total. A failed draw is not charged. */
export class ChargeEachReport {
  constructor(total) {
    parseFraction(total, "total");
    this.total = total;
  }

  next({ spent_epsilon: before }, claim, item) {
    const spent = addFractions(parseSpent(before), parseFraction(claim.epsilon));
    if (exceeds(parseFraction(spent), parseFraction(this.total))) throw new BudgetExhaustedError(`spent must be at most epsilon ${this.total}, got ${spent}`);
    return { report: claim.privatise(item), spent };
  }

  remaining({ spent_epsilon: spent }, { epsilon }) {
    const [[a, b], [c, d], [e, f]] = [parseFraction(this.total), parseSpent(spent), parseFraction(epsilon)];
    return Math.max(0, Number(((a * d - c * b) * f) / (b * d * e)));
  }
}

const STORE_NAME = "memories";

function openDatabase() {
  if (!globalThis.indexedDB) throw new Error("storage must persist writes, got a platform without indexedDB");
  const request = indexedDB.open("streamgauge", 1);
  request.onupgradeneeded = () => request.result.createObjectStore(STORE_NAME);
  return new Promise((done, failed) => {
    request.onsuccess = () => done(request.result);
    request.onerror = request.onblocked = () => failed(request.error ?? new Error("storage must be opened, got one that is blocked"));
  });
}

/** Storage of devices. update(name, change) reads the text under a name, or null, and writes change(text): undefined
 * writes nothing, null removes the text. The promise resolves once all is on disk. No other page of the site reads or
 * writes in between. Here that is one transaction of IndexedDB. */
export const disk = {
  async update(name, change) {
    const database = await openDatabase();
    const transaction = database.transaction(STORE_NAME, "readwrite", { durability: "strict" });
    database.close(); // after the transaction
    const [store, errors] = [transaction.objectStore(STORE_NAME), []];
    const found = store.get(name);
    found.onsuccess = () => {
      try {
        const text = change(found.result ?? null);
        if (text !== undefined) text === null ? store.delete(name) : store.put(text, name);
      } catch (error) {
        errors.push(error);
        transaction.abort();
      }
    };
    await new Promise((done, failed) => {
      transaction.oncomplete = done;
      transaction.onabort = () => failed(errors[0] ?? new Error(`storage must persist writes, got ${transaction.error?.name ?? "one that was closed"}`));
    });
  },
};

/** A device: repeated reports of items. `name` names the question: one name has one memory, for all settings.
 * It makes at most `maxReports` reports, repeated ones included, at most one in `intervalSeconds`, and none before
 * `start`, in seconds since 1970. Reports before `start` do not count. null means no bound. */
export class Device {
  constructor(claim, { policy = new Repeat(), name = "device", storage = disk, maxReports = null, intervalSeconds = null, start = null, now = systemClock } = {}) {
    if (typeof claim?.privatise !== "function") throw new Error(`claim must be of parseMechanism(settings), got ${describe(claim)}`);
    if (![policy?.next, policy?.remaining].every((act) => typeof act === "function")) throw new Error(`policy must be new Repeat() or new ChargeEachReport(total), got ${describe(policy)}`);
    if (typeof storage?.update !== "function") throw new Error(`storage must have update(name, change), got ${describe(storage)}`);
    checkPace({ maxReports, intervalSeconds, start, now });
    Object.assign(this, { claim, policy, name: `streamgauge ${name}`, storage, maxReports, intervalSeconds, start, now });
  }

  /** Resolve to {spent, remaining, lastReport, key, status, retrySeconds}: the epsilon of all reports so far, as "p" or
   * "p/q", and the number of reports left. Of the last report for this collection: its bytes, its Batch-Key, its status
   * ("accepted", "rejected" at each attempt, or "unanswered"), and the seconds in which it may be sent again. */
  async status() {
    return this.#update((memory) => {
      const { spent_epsilon: spent = "0", last_report: report, key } = memory;
      const remaining = Math.max(0, Math.min(this.policy.remaining(memory, this.claim), (this.maxReports ?? Infinity) - countReports(this, memory)));
      if (memory.collection !== this.claim.fingerprint) return [{ spent, remaining, lastReport: null, key: null, status: null, retrySeconds: 0 }];
      const status = memory.is_accepted ? "accepted" : memory.open_attempts ? "unanswered" : "rejected";
      return [{ spent, remaining, lastReport: unhex(report), key, status, retrySeconds: retrySecondsLeft(this, memory) }];
    });
  }

  /** Resolve to {report, key}: one more report, and the Batch-Key by which a server counts it once. */
  async report(item) { return this.#persist((memory) => this.#createReport(memory, item)); }

  /** Resolve to the {report, key} to send now: the last one again while it is not accepted and counts once, or one more.
   * Resolve to null if neither is allowed. */
  async prepareReport(item) {
    return this.#persist((memory) => (retrySecondsLeft(this, memory) > 0 ? recordAttempt(this, memory) : this.#createReport(memory, item))).catch((error) => {
      if (error instanceof ReportPaceError || error instanceof BudgetExhaustedError) return null;
      throw error;
    });
  }

  /** Send the pending report by `post`, and record the answer. Resolve to the answer, or to null if there was no report.
   * post(body, key) is a promise of a Response. It rejects if none comes, and so does this. */
  async send(item, post) {
    const pending = await this.prepareReport(item);
    if (pending === null) return null;
    const reply = await post(message(this.claim, [pending.report]), pending.key);
    await this.acknowledge(pending.key, await wasAccepted(reply));
    return reply;
  }

  /** Record the answer to the report of a key: accepted (true), certainly not accepted (false), or unknown (null). */
  async acknowledge(key, accepted = true) {
    if (accepted === null) return;
    const answered = (memory) => ({ ...memory, ...(accepted ? { is_accepted: true } : { open_attempts: Math.max(0, memory.open_attempts - 1) }) });
    await this.#update((memory) => [null, memory.key === key ? answered(memory) : undefined]);
  }

  /** Remove the memory. The next report is that of another device, at a further loss. */
  async wipe() { await this.storage.update(this.name, () => null); }

  /** Draw one more report. It is rejected before the draw, never because of the item. */
  #createReport(memory, item) {
    this.policy.check?.(memory, this.claim);
    const pace = recordReport(this, memory);
    const { report, spent } = this.policy.next(memory, this.claim, item);
    return { spent_epsilon: spent, last_report: hex(report), collection: this.claim.fingerprint, key: drawKey(), ...pace };
  }

  /** Return a report only after it is stored: a device without its memory would spend the loss again. */
  async #persist(change) {
    const sent = await this.#update((memory) => { const next = change(memory); return [{ report: unhex(next.last_report), key: next.key }, next]; });
    if (!sent || !(await this.#update(({ spent_epsilon: spent }) => [spent]))) throw new Error("storage must persist writes, got one that does not");
    return sent;
  }

  /** Apply change(memory), which returns [result, new memory or undefined], and resolve to the result. */
  async #update(change) {
    let result;
    await this.storage.update(this.name, (text) => {
      const [said, next] = change(parseMemory(text ?? null));
      result = said;
      return next && JSON.stringify(next);
    });
    return result;
  }
}

/** Resolve to whether a server accepted a report, by its answer: true, false for certain, or null if unknown. */
export async function wasAccepted(reply) {
  if (!reply || reply.ok) return reply ? true : null;
  if (reply.status >= 400 && reply.status < 500) return false;
  const result = await reply.clone().json().catch(() => null);
  return result?.error?.accepted === false ? false : null;
}

const systemClock = () => Date.now() / 1000;
const drawKey = () => Array.from(drawWords(4), (word) => word.toString(16).padStart(8, "0")).join("");

function checkPace({ maxReports, intervalSeconds, start, now }) {
  if (maxReports !== null && !isInteger(1, 2 ** 53 - 1)(maxReports)) throw new Error(`maxReports must be a whole number from 1 on, or null, got ${describe(maxReports)}`);
  if (intervalSeconds !== null && !(Number.isFinite(intervalSeconds) && intervalSeconds > 0)) throw new Error(`intervalSeconds must be a number of seconds above 0, or null, got ${describe(intervalSeconds)}`);
  if (start !== null && !Number.isFinite(start)) throw new Error(`start must be seconds since 1970, or null, got ${describe(start)}`);
  if (typeof now !== "function") throw new Error(`now must be a function that returns seconds since 1970, got ${describe(now)}`);
}

function readClock({ now }) {
  const moment = now();
  if (!Number.isFinite(moment)) throw new Error(`now must return seconds since 1970, got ${describe(moment)}`);
  return moment;
}

/** Return the number of reports from `start` on. */
const countReports = ({ start }, { reports_sent: sent = 0, last_sent_at: at }) => (start !== null && at < start ? 0 : sent);

/** Return the memory of one more report, or reject it. A clock that is set back allows none. */
function recordReport(device, memory) {
  const { maxReports, intervalSeconds, start } = device;
  const [sent, { last_sent_at: at = -Infinity }, moment] = [countReports(device, memory), memory, readClock(device)];
  if (maxReports !== null && sent >= maxReports) throw new ReportPaceError(`reports must be at most ${maxReports}, got one more`);
  const wait = Math.max(start ?? moment, intervalSeconds === null ? moment : at + intervalSeconds) - moment;
  if (wait > 0) throw new ReportPaceError(`report must be ${Number(wait.toPrecision(6))} seconds later, got one now`, "too_soon", wait);
  return { reports_sent: sent + 1, last_sent_at: Math.max(at, moment), is_accepted: false, open_attempts: 1, first_attempt_at: moment };
}

// `open_attempts` to send the last report have no answer; the first of them was at `first_attempt_at`. A server remembers
// the key for ten minutes after it. One minute is left for the network: later the report might count twice.
const RESEND_SECONDS = 540;

/** Return the seconds in which the last report may be sent again. */
function retrySecondsLeft(device, { collection, last_sent_at: at, is_accepted: accepted, open_attempts: open, first_attempt_at: first }) {
  if (collection !== device.claim.fingerprint || accepted || (device.start !== null && at < device.start)) return 0;
  const waited = open ? readClock(device) - first : -Infinity;
  return open && waited < 0 ? 0 : Math.max(0, RESEND_SECONDS - waited);
}

/** Return the memory after one more attempt. It may be the one that arrives, so the pace counts from it. */
function recordAttempt(device, memory) {
  const moment = readClock(device);
  const first = memory.open_attempts ? memory.first_attempt_at : moment;
  return { ...memory, last_sent_at: Math.max(memory.last_sent_at, moment), open_attempts: memory.open_attempts + 1, first_attempt_at: first };
}

/** Parse a memory. Each has the spent loss, so that none is read as less. */
function parseMemory(text) {
  if (text === null) return {};
  try {
    const memory = JSON.parse(text);
    parseFraction(memory.spent_epsilon);
    const texts = /^([0-9a-f]{2})+ [0-9a-f]{8} [0-9a-f]{32}$/.test(`${memory.last_report} ${memory.collection} ${memory.key}`);
    const numbers = isInteger(1, 2 ** 53 - 1)(memory.reports_sent) && isInteger(0, 2 ** 53 - 1)(memory.open_attempts) && [memory.last_sent_at, memory.first_attempt_at].every(Number.isFinite);
    if (texts && numbers && typeof memory.is_accepted === "boolean") return memory;
  } catch { /* reported below */ }
  throw new InvalidSaveError("memory must be text that this device wrote, got other text");
}

/** Return the device of a column of /api/collection: its policy, its most reports, one a tick, from the start on. The
 * collector is not trusted and might request more every day: the page bounds the loss of all reports by `maxLoss`. */
export function buildDevice(collection, column, { maxLoss, name = column, storage, now } = {}) {
  const columns = collection?.columns ?? {};
  if (!Object.hasOwn(columns, column)) throw new Error(`column must be one of ${Object.keys(columns).join(", ")}, got ${describe(column)}`);
  const { settings, on_repeat: onRepeat, reports_per_user: maxReports } = columns[column];
  if (!["repeat", "charge"].includes(onRepeat)) throw new Error(`on_repeat must be repeat or charge, got ${describe(onRepeat)}`);
  if (!isInteger(1, 2 ** 53 - 1)(maxReports)) throw new Error(`reports_per_user must be a whole number from 1 on, got ${describe(maxReports)}`);
  const claim = parseMechanism(settings);
  const [numerator, denominator] = parseFraction(claim.epsilon);
  const requested = formatFraction(numerator * BigInt(onRepeat === "charge" ? maxReports : 1), denominator);
  if (exceeds(parseFraction(requested), parseFraction(maxLoss, "maxLoss"))) throw new CollectionError(`maxLoss must be at least epsilon ${requested}, which the collection requires, got ${maxLoss}`, "loss_not_agreed");
  const { tick: intervalSeconds, start } = collection;
  return new Device(claim, { policy: onRepeat === "charge" ? new ChargeEachReport(requested) : new Repeat(), name, storage, maxReports, intervalSeconds, start, now });
}
