// The device's half of the local model, for browsers: one module that asks for nothing but the platform.
//
//   import { deviceOf } from "./client.js";
//   const collection = await (await fetch("/api/collection")).json();
//   const device = deviceOf(collection, "emoji", { agreed: "2", name: "favourite emoji" });
//   const post = (body, key) => fetch("/api/reports", { method: "POST", body, headers: { "Batch-Key": key } });
//   await device.send("🔥", post); // at every visit: sends what is due, if anything is
//
// Privacy. What leaves is a report, drawn here: for any two items its chances are within e^epsilon of each other.
// Chances are k/2^32 with the k of the settings, which are rounded towards no information; a coin is one word of
// crypto.getRandomValues below k, a die one below the largest multiple of its sides, others being thrown again. No
// other source of chance is there: where that one is missing or gives zeros, NoEntropy is thrown and nothing leaves.
// Settings come from whoever collects, who is not trusted: they are copied, and refused if they are of no claim or
// their chances lose more than the epsilon they state, which is "p" or "p/q" without a sign or a zero. Whether that
// epsilon is one to agree to is for the page to say, and the page is trusted with the item.
//
// Everything but the draws is as in Python, bit for bit: hashes, reports, messages (tests/localdp/vectors.json).

export class NoEntropy extends Error {}
export class OtherCollection extends Error {}
export class NoBudgetLeft extends Error {}
export class NoReportLeft extends Error {}
export class TooSoon extends Error {} // in `wait` seconds there may be a report
export class NotAgreed extends Error {}
export class BadMemory extends Error {}

// --- BLAKE2b (RFC 7693), in pairs of 32-bit words: low, high ---

const START = [0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n]
  .flatMap((word) => [Number(word & 0xffffffffn), Number(word >> 32n)]);
const ORDERS = ["0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d",
  "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0"]
  .map((order) => [...order].map((place) => 2 * parseInt(place, 16)));
const LANES = [[0, 8, 16, 24], [2, 10, 18, 26], [4, 12, 20, 28], [6, 14, 22, 30],
  [0, 10, 20, 30], [2, 12, 22, 24], [4, 14, 16, 26], [6, 8, 18, 28]];
const BLOCK = 128;

function add(into, a, from, b) {
  const low = into[a] + from[b];
  into[a + 1] += from[b + 1] + (low > 0xffffffff ? 1 : 0);
  into[a] = low;
}

/** v[d] = (v[d] ^ v[a]), turned right by so many bits. */
function turn(v, d, a, bits) {
  const low = bits < 32 ? v[d] ^ v[a] : v[d + 1] ^ v[a + 1];
  const high = bits < 32 ? v[d + 1] ^ v[a + 1] : v[d] ^ v[a];
  const by = bits % 32;
  v[d] = by ? (low >>> by) | (high << (32 - by)) : low;
  v[d + 1] = by ? (high >>> by) | (low << (32 - by)) : high;
}

function mix(v, words, lane, x, y) {
  const a = lane[0], b = lane[1], c = lane[2], d = lane[3];
  add(v, a, v, b); add(v, a, words, x); turn(v, d, a, 32);
  add(v, c, v, d); turn(v, b, c, 24);
  add(v, a, v, b); add(v, a, words, y); turn(v, d, a, 16);
  add(v, c, v, d); turn(v, b, c, 63);
}

function compress(state, words, count, last) {
  const v = new Uint32Array(32);
  v.set(state);
  v.set(START, 16);
  v[24] ^= count;
  if (last) [v[28], v[29]] = [~v[28], ~v[29]];
  for (let round = 0; round < 12; round += 1) {
    const order = ORDERS[round % 10];
    for (let lane = 0; lane < 8; lane += 1) mix(v, words, LANES[lane], order[2 * lane], order[2 * lane + 1]);
  }
  for (let i = 0; i < 16; i += 1) state[i] ^= v[i] ^ v[i + 16];
}

/** The digest of fewer than 2^32 bytes, by a key and for a purpose (of 16 bytes), as hashlib.blake2b has it. */
export function blake2b(data, { size = 64, key = new Uint8Array(), person = new Uint8Array(16) } = {}) {
  const keyed = key.length ? BLOCK : 0;
  const padded = new Uint8Array(Math.max(1, Math.ceil((keyed + data.length) / BLOCK)) * BLOCK);
  padded.set(key);
  padded.set(data, keyed);
  const parts = littleWords(padded);
  const state = Uint32Array.from(START);
  state[0] ^= 0x01010000 ^ (key.length << 8) ^ size;
  littleWords(person).forEach((word, i) => { state[12 + i] ^= word; });
  for (let end = BLOCK; end <= padded.length; end += BLOCK) {
    const last = end === padded.length;
    compress(state, parts.subarray((end - BLOCK) / 4, end / 4), last ? keyed + data.length : end, last);
  }
  return new Uint8Array(size).map((_, i) => state[i >> 2] >>> (8 * (i % 4)));
}

const littleWords = (bytes) => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  return new Uint32Array(bytes.length / 4).map((_, i) => view.getUint32(4 * i, true));
};

// --- Hashes: h_j(x) = ((a x^2 + b x + c) mod 2^61 - 1) mod width ---

const PRIME = (1n << 61n) - 1n;
const ITEM = bytesOf("sg.localdp.item\0");
const HASH = bytesOf("sg.localdp.hash\0");

/** Text in UTF-8; a lone surrogate is U+FFFD. */
function bytesOf(text) { return new TextEncoder().encode(text); }

/** Up to 8 bytes as a whole number, the least first, and back. */
function number(bytes) {
  const padded = new Uint8Array(8);
  padded.set(bytes);
  return new DataView(padded.buffer).getBigUint64(0, true);
}

function little(value, size) {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, BigInt(value), true);
  return new Uint8Array(view.buffer, 0, size);
}

/** What is neither text nor a whole number below 2^63 (from 2^53 on a BigInt) is the empty text: no item is refused.
 * 7 and 7.0 are one number here, as they are one item in Python; truth values and what is missing are none. */
function textOf(item) {
  const small = typeof item === "bigint" && item === BigInt.asIntN(64, item) && item !== -(2n ** 63n);
  return typeof item === "string" || small || Number.isSafeInteger(item) ? String(item) : "";
}

/** Where an item is among 2^61 - 1. */
export function point(seed, item) {
  const found = number(blake2b(bytesOf(textOf(item)), { size: 8, key: little(seed, 8), person: ITEM })) & PRIME;
  return found === PRIME ? 0n : found;
}

/** The coefficients of hash j. */
export function coefficients(seed, j) {
  for (let attempt = 0; ; attempt += 1) {
    const data = Uint8Array.from([...little(j, 8), attempt]);
    const digest = blake2b(data, { size: 24, key: little(seed, 8), person: HASH });
    const found = [0, 8, 16].map((start) => number(digest.subarray(start, start + 8)) & PRIME);
    if (!found.includes(PRIME)) return found;
  }
}

/** The column of an item under hash j. */
export function place({ seed, width }, j, item) {
  const [a, b, c] = coefficients(seed, j);
  const x = point(seed, item);
  return Number((((a * x + b) * x + c) % PRIME) % BigInt(width));
}

// --- Chance: the platform's cryptographic generator, or nothing ---

const WORD = 2 ** 32;
const AT_ONCE = 2 ** 14; // words of one call, which gives 65,536 bytes at most
const PROOF = 8; // words that are never all zero but for a chance of 2^-256

function words(size) {
  const source = globalThis.crypto;
  if (typeof source?.getRandomValues !== "function") throw new NoEntropy("crypto.getRandomValues must be there, got a platform without it");
  const drawn = new Uint32Array(Math.max(size, PROOF));
  for (let start = 0; start < drawn.length; start += AT_ONCE) source.getRandomValues(drawn.subarray(start, start + AT_ONCE));
  if (drawn.every((word) => word === 0)) throw new NoEntropy("crypto.getRandomValues must give random bytes, got zeros");
  return drawn.subarray(0, size);
}

/** True with chance k/2^32, so many times. */
const coins = (k, size) => Array.from(words(size), (word) => word < k);
const coin = (k) => coins(k, 1)[0];

/** 0 to sides - 1, each with the same chance. */
function die(sides) {
  const limit = Math.floor(WORD / sides) * sides;
  for (;;) { const [word] = words(1); if (word < limit) return word % sides; }
}

// --- Protocols: settings, and how a report is drawn under them ---
//
//   privatise(item)             one report, size bytes
//   encode(item, ...drawn)      the same without chance: what was drawn is given
//   likelihood(item, report)    in proportion to the chance of the report: only ratios between items matter
//   loss                        ln of the largest such ratio, by the chances

/** ln of how much likelier a side of chance k/2^32 is than one of so many others, which share the rest. */
const gap = (k, others = 1) => Math.log((k * others) / (WORD - k));
/** A side if it is kept, else one of the others, which are numbered without it. */
const responded = (side, kept, other) => (kept ? side : other + (other >= side));
/** Where an item is on a list, by its text; -1 if it is not there. */
const listed = (items, item) => items.map((each) => hex(bytesOf(textOf(each)))).indexOf(hex(bytesOf(textOf(item))));
const odd = (bits) => { let sum = 0; for (let rest = bits; rest; rest &= rest - 1) sum ^= 1; return sum; };
const bytesFor = (codes) => Math.max(1, Math.ceil(Math.log2(codes) / 8));
const packed = (bits) => new Uint8Array(Math.ceil(bits.length / 8)).map((_, i) => bits.slice(8 * i, 8 * i + 8).reduceRight((byte, bit) => 2 * byte + bit, 0));
const bit = (bytes, i) => (bytes[i >> 3] >> (i % 8)) & 1;

const whole = (least, most) => (value) => Number.isSafeInteger(value) && value >= least && value <= most;
const distinct = (texts) => new Set(texts).size === texts.length;
const isItem = (item) => typeof item === "string" || Number.isSafeInteger(item);
/** What each kind of settings must be. */
const HASHED = { hashes: whole(1, 2 ** 20), width: whole(2, 2 ** 20), seed: whole(0, 2 ** 53 - 1) };
const LINED = { ...HASHED, width: (width) => HASHED.width(width) && (width & (width - 1)) === 0 };
const LISTED = { items: (items) => Array.isArray(items) && whole(2, 2 ** 20)(items.length) && items.every(isItem) && distinct(items.map(String)) };
const SPELT = { ...LINED, length: whole(1, 2 ** 10), step: whole(1, 2 ** 10),
  alphabet: (letters) => typeof letters === "string" && letters !== "" && distinct([...letters]) && !/[\0\p{Cs}]/u.test(letters) };

class CountMeanSketch {
  static settings = HASHED;
  get loss() { return 2 * Math.abs(gap(this.chances.flip)); }
  get rowSize() { return bytesFor(this.hashes); }
  get size() { return this.rowSize + Math.ceil(this.width / 8); }

  privatise(item) {
    return this.encode(item, die(this.hashes), coins(this.chances.flip, this.width));
  }

  encode(item, row, flips) {
    const own = place(this, row, item);
    return Uint8Array.from([...little(row, this.rowSize), ...packed(flips.map((flip, column) => flip ^ (column === own)))]);
  }

  likelihood(item, report) {
    const row = Number(number(report.subarray(0, this.rowSize)));
    const { flip } = this.chances;
    return bit(report.subarray(this.rowSize), place(this, row, item)) ? (WORD - flip) / flip : flip / (WORD - flip);
  }
}

class HadamardCountMeanSketch {
  static settings = LINED;
  get loss() { return Math.abs(gap(this.chances.flip)); }
  get size() { return bytesFor(2 * this.hashes * this.width); }

  privatise(item) {
    return this.encode(item, die(this.hashes), die(this.width), coin(this.chances.flip));
  }

  encode(item, row, line, flipped) {
    const negative = odd(line & place(this, row, item)) ^ flipped;
    return little((row * this.width + line) * 2 + 1 - negative, this.size);
  }

  /** What a report says: a row, a line, a sign. */
  told(report) {
    const code = Number(number(report));
    const cell = Math.floor(code / 2);
    return { row: Math.floor(cell / this.width), line: cell % this.width, negative: 1 - (code % 2) };
  }

  likelihood(item, report) {
    const { row, line, negative } = this.told(report);
    const flipped = odd(line & place(this, row, item)) !== negative;
    return (flipped ? this.chances.flip : WORD - this.chances.flip) / WORD;
  }
}

class LocalHashing {
  static settings = HASHED;
  get loss() { return Math.abs(gap(this.chances.kept, this.width - 1)); }
  get size() { return bytesFor(this.hashes * this.width); }

  privatise(item) {
    return this.encode(item, die(this.hashes), coin(this.chances.kept), die(this.width - 1));
  }

  encode(item, row, kept, other) {
    return little(row * this.width + responded(place(this, row, item), kept, other), this.size);
  }

  likelihood(item, report) {
    const code = Number(number(report));
    const kept = place(this, Math.floor(code / this.width), item) === code % this.width;
    return (kept ? this.chances.kept : (WORD - this.chances.kept) / (this.width - 1)) / WORD;
  }
}

class RandomisedResponse {
  static settings = LISTED;
  get loss() { return Math.abs(gap(this.chances.kept, this.items.length - 1)); }
  get size() { return bytesFor(this.items.length); }

  privatise(item) {
    const sides = this.items.length;
    return this.encode(item, coin(this.chances.kept), die(sides - 1), die(sides));
  }

  /** `instead` stands in for an item that is not on the list. */
  encode(item, kept, other, instead = 0) {
    const own = listed(this.items, item);
    return little(responded(own < 0 ? instead : own, kept, other), this.size);
  }

  likelihood(item, report) {
    const [own, sides] = [listed(this.items, item), this.items.length];
    if (own < 0) return 1 / sides;
    return (own === Number(number(report)) ? this.chances.kept : (WORD - this.chances.kept) / (sides - 1)) / WORD;
  }
}

class UnaryEncoding {
  static settings = LISTED;
  get loss() { return Math.abs(gap(this.chances.own) - gap(this.chances.flip)); }
  get size() { return Math.ceil(this.items.length / 8); }

  privatise(item) {
    return this.encode(item, coin(this.chances.own), coins(this.chances.flip, this.items.length));
  }

  encode(item, own, flips) {
    const at = listed(this.items, item);
    return packed(flips.map((flip, column) => Number(column === at ? own : flip)));
  }

  likelihood(item, report) {
    const [at, { own, flip }] = [listed(this.items, item), this.chances];
    if (at < 0) return 1;
    return bit(report, at) ? own / flip : (WORD - own) / (WORD - flip);
  }
}

class HadamardResponse {
  static settings = LISTED;
  get loss() { return Math.abs(gap(this.chances.flip)); }
  get codes() { return 2 ** (Math.floor(Math.log2(this.items.length)) + 1); }
  get size() { return bytesFor(this.codes); }

  privatise(item) {
    return this.encode(item, die(this.codes), coin(this.chances.flip));
  }

  encode(item, code, flipped) {
    const row = listed(this.items, item) + 1;
    return little(odd(code & row) ^ flipped ? code ^ (row & -row) : code, this.size);
  }

  likelihood(item, report) {
    const row = listed(this.items, item) + 1;
    if (row === 0) return 0.5;
    return (odd(Number(number(report)) & row) ? this.chances.flip : WORD - this.chances.flip) / WORD;
  }
}

/** A word's prefix of a level that is drawn, by a sketch of the level's own: words that are on no list. */
class HeavyHitters {
  static settings = SPELT;
  get loss() { return Math.abs(gap(this.chances.flip)); }
  get levels() { return Math.ceil(this.length / this.step); }
  get each() { return 2 * this.hashes * this.width; }
  get size() { return bytesFor(this.levels * this.each); }

  sketch(level) {
    const { hashes, width, chances, seed } = this;
    return Object.assign(new HadamardCountMeanSketch(), { hashes, width, chances, seed: seed + level });
  }

  /** Letters outside the alphabet are dropped, and a word is cut; NUL says that it has ended. */
  prefix(item, level) {
    const letters = new Set(this.alphabet);
    const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytesOf(textOf(item)));
    const word = Array.from(text).filter((letter) => letters.has(letter)).slice(0, this.length);
    const end = (level + 1) * this.step;
    return word.slice(0, end).join("") + (word.length < end && level < this.levels - 1 ? "\0" : "");
  }

  privatise(item) {
    return this.encode(item, die(this.levels), die(this.hashes), die(this.width), coin(this.chances.flip));
  }

  encode(item, level, ...drawn) {
    const code = number(this.sketch(level).encode(this.prefix(item, level), ...drawn));
    return little(level * this.each + Number(code), this.size);
  }

  likelihood(item, report) {
    const code = Number(number(report));
    const level = Math.floor(code / this.each);
    const sketch = this.sketch(level);
    return sketch.likelihood(this.prefix(item, level), little(code % this.each, sketch.size));
  }
}

const PROTOCOLS = { CountMeanSketch, HadamardCountMeanSketch, LocalHashing, RandomisedResponse, UnaryEncoding, HadamardResponse, HeavyHitters };

/** What a collection's settings say, copied and for good; those of no claim, or whose chances lose more than their
 * epsilon, are refused, whoever sent them. */
export function claimOf(settings) {
  const told = JSON.parse(JSON.stringify(settings) ?? "null");
  if (told?.settings !== undefined && told.protocol === undefined) throw new Error("settings must be those of a column, as column.settings has them, got the column");
  if (told?.constructor !== Object) throw new Error(`settings must be those of a column, as /api/collection tells them, got ${shown(settings)}`);
  if (!Object.hasOwn(PROTOCOLS, told.protocol)) throw new Error(`protocol must be one of ${Object.keys(PROTOCOLS).join(", ")}, got ${told.protocol}`);
  const kind = PROTOCOLS[told.protocol];
  const { protocol, epsilon, chances, fingerprint: print, ...more } = told;
  checkSettings(kind.settings, more);
  const claim = Object.assign(new kind(), { protocol, epsilon, chances, fingerprint: print, ...more });
  checkCells(claim);
  if (claim instanceof HeavyHitters) checkSpelling(claim);
  checkLoss(claim);
  if (print !== fingerprint(told)) throw new OtherCollection(`fingerprint must be ${fingerprint(told)}, got ${print}`);
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
  if (ways > 2 ** 16) throw new Error(`step must be such that a prefix goes on in at most 2**16 ways, got ${step}`);
}

/** A threshold that is off by 1 loses 4/2^32 more or so; logarithms are right to some 1e-15. */
const ROUNDING = 1e-13;

function checkLoss(claim) {
  const [over, under] = fraction(claim.epsilon).map(Number);
  const tossed = Object.values(claim.chances ?? {});
  const most = over / under + ROUNDING * Math.max(1, over / under);
  if (!(tossed.length && tossed.every(whole(1, WORD - 1)) && claim.loss <= most)) throw new Error(`chances must lose at most epsilon ${claim.epsilon}, got others`);
}

// --- Messages: "SGR1", the fingerprint of the settings, reports ---

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const unhex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
/** For the words of errors: what is public as it is, objects and what may be private by their kind. */
const kind = (value) => (Object(value) === value ? value.constructor?.name ?? "an object" : typeof value);
const shown = (value) => (typeof value === "function" ? value.name : Object(value) === value ? kind(value) : JSON.stringify(value) ?? String(value));
const inOrder = (_, value) => (value?.constructor === Object ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))) : value);
const fingerprint = ({ fingerprint: _, ...settings }) => hex(blake2b(bytesOf(JSON.stringify(settings, inOrder)), { size: 32 }).subarray(0, 4));

export function message(claim, reports) {
  if (!Array.isArray(reports)) throw new Error(`reports must be a list, as in message(claim, [report]), got ${kind(reports)}`);
  const wrong = reports.find((report) => !(report instanceof Uint8Array && report.length === claim.size));
  if (wrong !== undefined) throw new Error(`reports must be Uint8Arrays of ${claim.size} bytes each, got ${kind(wrong)}`);
  return Uint8Array.from([...bytesOf("SGR1"), ...unhex(claim.fingerprint), ...reports.flatMap((report) => [...report])]);
}

// --- A device over time: what it has sent, or spent, is kept in a storage of its own, which is secret to it ---

/** A loss above 0, "p" or "p/q", and nothing that might be read as less than it is. */
function fraction(text, name = "epsilon") {
  if (typeof text !== "string" || !/^[1-9]\d*(\/[1-9]\d*)?$/.test(text)) throw new Error(`${name} must be "p" or "p/q" of whole numbers above 0, as text like "8", got ${shown(text)}`);
  return text.split("/").concat("1").slice(0, 2).map(BigInt);
}

const divisor = (a, b) => (b === 0n ? a : divisor(b, a % b));
const plus = ([a, b], [c, d]) => lowest(a * d + c * b, b * d);
/** "p/q" in lowest terms, or "p". */
function lowest(over, under) {
  const shared = divisor(over, under);
  return under === shared ? `${over / shared}` : `${over / shared}/${under / shared}`;
}

const beyond = ([a, b], [c, d]) => a * d > c * b;
const ratio = (spent) => (spent === undefined ? [0n, 1n] : fraction(spent));

// A rule: next(memory, claim, item) is a report, and what is spent once it is made; it writes nothing. remaining(memory,
// claim) is for how many more there is budget. check(memory, claim), if it is there, refuses a collection at any pace.

/** Sends its first report again, whatever the item becomes: all of it together costs epsilon once. */
export class Repeat {
  check({ spent_epsilon: spent, collection }, { fingerprint: own }) {
    if (spent !== undefined && collection !== own) throw new OtherCollection(`collection must be the one that was reported to, ${collection}, got ${own}`);
  }

  next(memory, claim, item) {
    this.check(memory, claim);
    const { spent_epsilon: spent, last_report: report } = memory;
    return spent === undefined ? { report: claim.privatise(item), spent: lowest(...fraction(claim.epsilon)) } : { report: unhex(report), spent };
  }

  remaining({ spent_epsilon: spent, collection }, { fingerprint: own }) { return spent === undefined || collection === own ? Infinity : 0; }
}

/** Draws anew each time, and is charged each time, before a report is handed out, as long as the total has room. What
 * cannot be drawn is not charged. */
export class Charge {
  constructor(total) {
    fraction(total, "total");
    this.total = total;
  }

  next({ spent_epsilon: before }, claim, item) {
    const spent = plus(ratio(before), fraction(claim.epsilon));
    if (beyond(fraction(spent), fraction(this.total))) throw new NoBudgetLeft(`spent must be at most epsilon ${this.total}, got ${spent}`);
    return { report: claim.privatise(item), spent };
  }

  remaining({ spent_epsilon: spent }, { epsilon }) {
    const [[a, b], [c, d], [e, f]] = [fraction(this.total), ratio(spent), fraction(epsilon)];
    return Math.max(0, Number(((a * d - c * b) * f) / (b * d * e)));
  }
}

const STORE = "memories";

function opened() {
  if (!globalThis.indexedDB) throw new Error("storage must keep what is written, got a platform without indexedDB");
  const asked = indexedDB.open("streamgauge", 1);
  asked.onupgradeneeded = () => asked.result.createObjectStore(STORE);
  return new Promise((done, failed) => {
    asked.onsuccess = () => done(asked.result);
    asked.onerror = asked.onblocked = () => failed(asked.error ?? new Error("storage must be opened, got one that is blocked"));
  });
}

/** Where a device remembers: update(name, change) reads the text under a name, or null, and writes what change(text) is,
 * undefined being nothing and null that it is removed. It is a promise, which is kept once all is on disk; no other page
 * of the site reads or writes in between. Here that is one transaction: the platform has them wait for each other. */
export const disk = {
  async update(name, change) {
    const database = await opened();
    const turn = database.transaction(STORE, "readwrite", { durability: "strict" });
    database.close(); // once the turn is over
    const [store, wrong] = [turn.objectStore(STORE), []];
    const found = store.get(name);
    found.onsuccess = () => {
      try {
        const text = change(found.result ?? null);
        if (text !== undefined) text === null ? store.delete(name) : store.put(text, name);
      } catch (error) {
        wrong.push(error);
        turn.abort();
      }
    };
    await new Promise((done, failed) => {
      turn.oncomplete = done;
      turn.onabort = () => failed(wrong[0] ?? new Error(`storage must keep what is written, got ${turn.error?.name ?? "one that was closed"}`));
    });
  },
};

/** `name` is what it is asked, not who asks: under one name there is one memory, whatever the settings become.
 * It makes `most` reports in all, repeated ones too, `every` so many seconds at most one, and none before the moment
 * `since`, in seconds since 1970; those of before are not counted. None of it bounds anything where it is null. */
export class Device {
  constructor(claim, { again = new Repeat(), name = "device", storage = disk, most = null, every = null, since = null, now = clock } = {}) {
    if (typeof claim?.privatise !== "function") throw new Error(`claim must be of claimOf(settings), got ${shown(claim)}`);
    if (![again?.next, again?.remaining].every((act) => typeof act === "function")) throw new Error(`again must be new Repeat() or new Charge(total), got ${shown(again)}`);
    if (typeof storage?.update !== "function") throw new Error(`storage must have update(name, change), got ${shown(storage)}`);
    checkPace({ most, every, since, now });
    Object.assign(this, { claim, again, name: `streamgauge ${name}`, storage, most, every, since, now });
  }

  /** A promise of {spent, remaining, lastReport, key, status, retrySeconds}: epsilon of all reports so far, as "p" or
   * "p/q"; how many may still be made; and of the last one for this collection the bytes and the Batch-Key, whether it
   * was "accepted", "rejected" each time or is "unanswered", and for how many seconds it may still be sent again. */
  async status() {
    return this.#turn((kept) => {
      const { spent_epsilon: spent = "0", last_report: report, key } = kept;
      const remaining = Math.max(0, Math.min(this.again.remaining(kept, this.claim), (this.most ?? Infinity) - counted(this, kept)));
      if (kept.collection !== this.claim.fingerprint) return [{ spent, remaining, lastReport: null, key: null, status: null, retrySeconds: 0 }];
      const status = kept.is_accepted ? "accepted" : kept.open_attempts ? "unanswered" : "rejected";
      return [{ spent, remaining, lastReport: unhex(report), key, status, retrySeconds: lasting(this, kept) }];
    });
  }

  /** A promise of {report, key}: one more report, and the Batch-Key by which a server counts it once. */
  async report(item) { return this.#handed((kept) => this.#made(kept, item)); }

  /** A promise of {report, key} that is to be sent now: the last one again, while it is not accepted and counts once, or
   * one more; of null if there may be none. */
  async due(item) {
    return this.#handed((kept) => (lasting(this, kept) > 0 ? tried(this, kept) : this.#made(kept, item))).catch((error) => {
      if ([NoReportLeft, NoBudgetLeft, TooSoon].some((kind) => error instanceof kind)) return null;
      throw error;
    });
  }

  /** Has the page send what is due, and remembers what became of it: a promise of the answer, of null if nothing was
   * due. post(body, key) is a promise of a Response, and fails if none comes; so does this. */
  async send(item, post) {
    const due = await this.due(item);
    if (due === null) return null;
    const reply = await post(message(this.claim, [due.report]), due.key);
    await this.acknowledge(due.key, await wasAccepted(reply));
    return reply;
  }

  /** What became of the report of a key: it was accepted (true), for certain not (false), or nobody knows (null). */
  async acknowledge(key, accepted = true) {
    if (accepted === null) return;
    const answered = (kept) => ({ ...kept, ...(accepted ? { is_accepted: true } : { open_attempts: Math.max(0, kept.open_attempts - 1) }) });
    await this.#turn((kept) => [null, kept.key === key ? answered(kept) : undefined]);
  }

  /** From now on it is another device. Who is asked the same again as before loses again. */
  async forget() { await this.storage.update(this.name, () => null); }

  /** Whether there may be a report is asked before it is drawn, and never of the item. */
  #made(kept, item) {
    this.again.check?.(kept, this.claim);
    const pace = paced(this, kept);
    const { report, spent } = this.again.next(kept, this.claim, item);
    return { spent_epsilon: spent, last_report: hex(report), collection: this.claim.fingerprint, key: freshKey(), ...pace };
  }

  /** What cannot be kept is not handed out: a device that forgets would be charged again and not know. */
  async #handed(change) {
    const sent = await this.#turn((kept) => { const next = change(kept); return [{ report: unhex(next.last_report), key: next.key }, next]; });
    if (!sent || !(await this.#turn(({ spent_epsilon: spent }) => [spent]))) throw new Error("storage must keep what is written, got one that does not");
    return sent;
  }

  /** change(memory) is what is told, and the memory from then on if it is another. */
  async #turn(change) {
    let told;
    await this.storage.update(this.name, (text) => {
      const [said, next] = change(memoryOf(text ?? null));
      told = said;
      return next && JSON.stringify(next);
    });
    return told;
  }
}

/** Whether a server accepted what was sent, by its answer: true; false for certain; null if it may have, or there is none. */
export async function wasAccepted(reply) {
  if (!reply || reply.ok) return reply ? true : null;
  if (reply.status >= 400 && reply.status < 500) return false;
  const told = await reply.clone().json().catch(() => null);
  return told?.error?.accepted === false ? false : null;
}

const clock = () => Date.now() / 1000;
const freshKey = () => Array.from(words(4), (word) => word.toString(16).padStart(8, "0")).join("");

function checkPace({ most, every, since, now }) {
  if (most !== null && !whole(1, 2 ** 53 - 1)(most)) throw new Error(`most must be a whole number from 1 on, or null, got ${shown(most)}`);
  if (every !== null && !(Number.isFinite(every) && every > 0)) throw new Error(`every must be a number of seconds above 0, or null, got ${shown(every)}`);
  if (since !== null && !Number.isFinite(since)) throw new Error(`since must be seconds since 1970, or null, got ${shown(since)}`);
  if (typeof now !== "function") throw new Error(`now must be a function that tells the time, got ${shown(now)}`);
}

function momentOf({ now }) {
  const moment = now();
  if (!Number.isFinite(moment)) throw new Error(`now must tell seconds since 1970, got ${shown(moment)}`);
  return moment;
}

/** How many reports count: those of before `since` do not. */
const counted = ({ since }, { reports_sent: sent = 0, last_sent_at: at }) => (since !== null && at < since ? 0 : sent);

/** What is remembered of one more report, if there may be one. A clock that is set back brings none. */
function paced(device, kept) {
  const { most, every, since } = device;
  const [sent, { last_sent_at: at = -Infinity }, moment] = [counted(device, kept), kept, momentOf(device)];
  if (most !== null && sent >= most) throw new NoReportLeft(`reports must be at most ${most}, got one more`);
  const wait = Math.max(since ?? moment, every === null ? moment : at + every) - moment;
  if (wait > 0) throw Object.assign(new TooSoon(`report must be ${Number(wait.toPrecision(6))} seconds later, got one now`), { wait });
  return { reports_sent: sent + 1, last_sent_at: Math.max(at, moment), is_accepted: false, open_attempts: 1, first_attempt_at: moment };
}

// Of the last report: `open_attempts` to send it have no answer, and the first of them was at `first_attempt_at`. A server
// remembers its key for ten minutes after that, of which one is left to the road: later it might be counted twice.
const AGAIN = 540;

/** For how many seconds the last report may be sent again. */
function lasting(device, { collection, last_sent_at: at, is_accepted: accepted, open_attempts: open, first_attempt_at: first }) {
  if (collection !== device.claim.fingerprint || accepted || (device.since !== null && at < device.since)) return 0;
  const waited = open ? momentOf(device) - first : -Infinity;
  return open && waited < 0 ? 0 : Math.max(0, AGAIN - waited);
}

/** One more attempt; it may be the one that arrives, so the pace goes on from it. */
function tried(device, kept) {
  const moment = momentOf(device);
  const first = kept.open_attempts ? kept.first_attempt_at : moment;
  return { ...kept, last_sent_at: Math.max(kept.last_sent_at, moment), open_attempts: kept.open_attempts + 1, first_attempt_at: first };
}

/** A memory as it was written; what was spent is in each, so that none is read as less than it is. */
function memoryOf(text) {
  if (text === null) return {};
  try {
    const kept = JSON.parse(text);
    fraction(kept.spent_epsilon);
    const texts = /^([0-9a-f]{2})+ [0-9a-f]{8} [0-9a-f]{32}$/.test(`${kept.last_report} ${kept.collection} ${kept.key}`);
    const numbers = whole(1, 2 ** 53 - 1)(kept.reports_sent) && whole(0, 2 ** 53 - 1)(kept.open_attempts) && [kept.last_sent_at, kept.first_attempt_at].every(Number.isFinite);
    if (texts && numbers && typeof kept.is_accepted === "boolean") return kept;
  } catch { /* said below, of any such text */ }
  throw new BadMemory("memory must be what this device wrote, got other text");
}

/** The device of a column, as /api/collection tells: its rule, its most reports, one a tick, from the start on. Who
 * collects is not trusted, and might ask for more every day: `agreed` is what all reports may cost, by the page. */
export function deviceOf(collection, column, { agreed, name = column, storage, now } = {}) {
  const columns = collection?.columns ?? {};
  if (!Object.hasOwn(columns, column)) throw new Error(`column must be one of ${Object.keys(columns).join(", ")}, got ${shown(column)}`);
  const { settings, on_repeat: again, reports_per_user: most } = columns[column];
  if (!["repeat", "charge"].includes(again)) throw new Error(`on_repeat must be repeat or charge, got ${shown(again)}`);
  if (!whole(1, 2 ** 53 - 1)(most)) throw new Error(`reports_per_user must be a whole number from 1 on, got ${shown(most)}`);
  const claim = claimOf(settings);
  const [over, under] = fraction(claim.epsilon);
  const asked = lowest(over * BigInt(again === "charge" ? most : 1), under);
  if (beyond(fraction(asked), fraction(agreed, "agreed"))) throw new NotAgreed(`agreed must be at least epsilon ${asked}, which the collection asks for, got ${agreed}`);
  const { tick: every, start: since } = collection;
  return new Device(claim, { again: again === "charge" ? new Charge(asked) : new Repeat(), name, storage, most, every, since, now });
}
