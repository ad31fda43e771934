// The page: the live stream is opened first and history read after, so that nothing falls between the two.

import { remove } from "./api.js";
import { Asking } from "./asking.js";
import { Budget } from "./budget.js";
import { byId, show } from "./dom.js";
import { IntruderPanel } from "./intruder.js";
import { Live } from "./live.js";
import { duration } from "./numbers.js";
import { Releases } from "./releases.js";
import { Session } from "./session.js";
import { Status } from "./status.js";

const status = new Status(() => live.start());
const session = new Session(begin);
const budget = new Budget();
const intruder = new IntruderPanel();
const releases = new Releases({ mayEnd, end });
const asking = new Asking({ done: reload, signIn: () => session.open(), say: (text) => status.say(text) });
const live = new Live({ opened: reload, lost, release, reset, ledger: reload, status: stated });

/** Anew: at the start, and when someone signed in or out. */
async function begin() {
  live.stop();
  try {
    const who = await session.load();
    gate(who === null);
    if (!who) return;
    live.start();
    intruder.load();
  } catch {
    lost();
    setTimeout(begin, 2000);
  }
}

function gate(closed) {
  show(byId("gate"), closed);
  for (const id of ["releases", "budget", "ask", "intruder"]) show(byId(id), !closed);
  if (!closed) return;
  live.stop();
  live.forget();
  releases.clear();
  status.set("closed");
}

function lost() {
  status.set("lost");
}

async function release(event) {
  status.tick(event.tick);
  budget.now(event.tick);
  await releases.take(event);
}

async function reset() {
  live.forget();
  releases.clear();
  await reload();
}

/** What there is by now: after opening, and when the ledger changed. */
async function reload() {
  try {
    const [told, book] = await Promise.all([releases.load(), budget.load(), session.load()]);
    heading(told.stream);
    if (told.shown?.tick) { status.tick(told.shown.tick); budget.now(told.shown.tick); }
    status.set(told.state);
    asking.know({ who: session.who, stream: told.stream, budget: book.budget });
  } catch (error) {
    if (error.status === 401) gate(true);
    else if (error.status) status.note(`${error.message}.`, "bad");
    else lost();
  }
}

/** How the run is; before anything is shown, the page is loading. */
function stated({ state }) {
  if (releases.stream) status.set(state);
}

function heading(stream) {
  document.title = `${stream.name} · Streamgauge`;
  byId("stream-name").textContent = stream.name;
  const until = stream.ticks ? `, ${stream.ticks.toLocaleString("en-GB")} of them` : "";
  const demo = releases.demo ? " · synthetic: nobody real is in it" : "";
  byId("stream-facts").textContent = `Ticks of ${duration(stream.tick)}${until} · protects ${stream.unit}${demo}`;
}

function mayEnd(release) {
  const { who } = session;
  const open = release.ended === null || release.ended === undefined;
  return open && Boolean(release.by) && (who?.role === "curator" || (who?.role === "analyst" && who.name === release.by));
}

async function end({ name }) {
  try {
    await remove(`/api/releases/${encodeURIComponent(name)}`);
    status.say(`${name} was ended`);
    await reload();
  } catch (refusal) {
    status.note(`${name} goes on: ${refusal.message}.`, "bad");
  }
}

begin();
