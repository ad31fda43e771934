// The page: it opens the live stream first and reads history after that, so that no tick is lost between.

import { RequestForm } from "./request_form.js";
import { Budget } from "./budget.js";
import { byId, show } from "./dom.js";
import { EndDialog } from "./end_dialog.js";
import { IntruderPanel } from "./intruder.js";
import { Live } from "./live.js";
import { whole } from "./numbers.js";
import { Releases } from "./releases.js";
import { Session } from "./session.js";
import { Status } from "./status.js";
import { duration } from "./times.js";

const OVER = "Your session has ended: sign in again.";

const status = new Status(() => live.start());
const session = new Session({ changed: enter, ended: () => { status.note("session", OVER); status.say(OVER); } });
const budget = new Budget();
const intruder = new IntruderPanel();
const ending = new EndDialog({ ended, refused: goesOn });
const releases = new Releases({ mayEnd, end: (release, heading) => ending.ask(release, heading, budget.backText(release)) });
const requestForm = new RequestForm({ done: reload, signIn: () => session.open(), say: (text) => status.say(text), forbidden: reload });
const live = new Live({ opened: reload, lost, release, reset, ledger: reload, status: stated });

async function enter() {
  status.note("session", "");
  await begin();
}

/** Load everything: at the start, and after sign-in or sign-out. */
async function begin() {
  live.stop();
  try {
    const who = await session.load();
    gate(who === null);
    if (!who) return;
    live.start();
  } catch (error) {
    failed(error);
    setTimeout(begin, 2000);
  }
}

function gate(closed) {
  show(byId("gate"), closed);
  for (const id of ["releases", "budget", "ask"]) show(byId(id), !closed);
  if (!closed) return;
  intruder.show(false);
  live.stop();
  live.forget();
  releases.clear();
  show(byId("gauges"), false);
  status.note("load", "");
  status.set("closed");
}

/** Handle a broken stream: perhaps the session has lost its right. */
async function lost() {
  status.set("lost");
  const who = await session.load().catch(() => undefined);
  if (who === null) gate(true);
}

async function release(event) {
  status.tick(event.tick);
  budget.now(event.tick);
  await releases.take(event).catch(failed);
}

async function reset() {
  live.forget();
  releases.clear();
  await reload();
}

/** Refresh the lists: after opening, and when the ledger changed. */
async function reload() {
  try {
    const [told, book] = await Promise.all([releases.load(), budget.load(), session.load()]);
    heading(told.stream);
    byId("band-words").textContent = bandWords(told.stream);
    intruder.show(told.intruder);
    budget.know(told.stream);
    if (told.published_until?.tick) { status.tick(told.published_until.tick); budget.now(told.published_until.tick); }
    status.note("load", "");
    status.set(told.state);
    requestForm.know({ who: session.who, stream: told.stream, book });
  } catch (error) {
    failed(error);
  }
}

function failed(error) {
  if (error.status === 401) session.load().then((who) => gate(who === null), () => null);
  else if (!releases.stream) {
    status.set("unloaded");
    releases.failed(error.message, reload);
  } else if (error.status) status.note("load", `${error.message}.`, "bad");
  else lost();
}

/** Show the state of the run; before that, the page is loading. */
function stated({ state }) {
  if (!releases.stream) return;
  status.set(state);
  requestForm.tell();
}

function heading(stream) {
  document.title = `${stream.name} · Streamgauge`;
  status.start = stream.start;
  byId("stream-name").textContent = stream.name;
  const until = stream.ticks ? `, ${whole(stream.ticks)} of them` : "";
  const demo = releases.demo ? " · synthetic data" : "";
  byId("stream-facts").textContent = `Ticks of ${duration(stream.tick)}${until} · protects ${stream.unit}${demo}`;
}

/** Describe the band: if events of users are dropped, it does not contain the truth. */
const bandWords = ({ contributions }) => (contributions ? `it counts ${contributions}` : "the band contains the truth 95 times in 100");

function mayEnd(release) {
  const { who } = session;
  const open = release.end_tick === null || release.end_tick === undefined;
  return open && Boolean(release.requested_by) && (who?.role === "curator" || (who?.role === "analyst" && who.name === release.requested_by));
}

async function ended(name) {
  status.note("ending", "");
  status.say(`${name} was ended`);
  await reload();
}

async function goesOn(name, refusal) {
  await reload();
  status.note("ending", `${name} continues: ${refusal.message}.`, "bad");
}

begin();
