// The page. It opens the live stream before it reads history, so that no tick is missed between the two.

import { RequestForm } from "./request_form.js";
import { Budget } from "./budget.js";
import { byId, show } from "./dom.js";
import { EndDialog } from "./end_dialog.js";
import { IntruderPanel } from "./intruder.js";
import { Live } from "./live.js";
import { formatInteger } from "./numbers.js";
import { Releases } from "./releases.js";
import { Session } from "./session.js";
import { Status } from "./status.js";
import { formatDuration } from "./times.js";

const SESSION_ENDED = "Your session has ended. Sign in again.";

const status = new Status(() => live.start());
const session = new Session({ changed: enter, ended: () => { status.note("session", SESSION_ENDED); status.say(SESSION_ENDED); } });
const budget = new Budget();
const intruder = new IntruderPanel();
const endDialog = new EndDialog({ onEnd: ended, onRefusal: endRefused });
const releases = new Releases({ mayEnd, end: (release, title) => endDialog.open(release, title, budget.refundText(release)) });
const requestForm = new RequestForm({ onRequest: reload, signIn: () => session.open(), say: (text) => status.say(text), onForbidden: reload });
const live = new Live({ opened: reload, lost: handleLost, release, reset, ledger: reload, status: setState });

async function enter() {
  status.note("session", "");
  await start();
}

/** Load everything: at the start, and after sign-in or sign-out. */
async function start() {
  live.stop();
  try {
    const user = await session.load();
    setSignedOut(user === null);
    if (!user) return;
    live.start();
  } catch (error) {
    handleError(error);
    setTimeout(start, 2000);
  }
}

function setSignedOut(closed) {
  show(byId("gate"), closed);
  for (const id of ["releases", "budget", "ask"]) show(byId(id), !closed);
  if (!closed) return;
  intruder.show(false);
  live.stop();
  live.clear();
  releases.clear();
  show(byId("gauges"), false);
  status.note("load", "");
  status.set("closed");
}

/** Handle a lost connection. The session may have been revoked. */
async function handleLost() {
  status.set("lost");
  const user = await session.load().catch(() => undefined);
  if (user === null) setSignedOut(true);
}

async function release(event) {
  status.tick(event.tick);
  budget.setTick(event.tick);
  await releases.addTick(event).catch(handleError);
}

async function reset() {
  live.clear();
  releases.clear();
  await reload();
}

/** Reload the lists: after the stream opens, and when the ledger changes. */
async function reload() {
  try {
    const [list, ledger] = await Promise.all([releases.load(), budget.load(), session.load()]);
    showHeading(list.stream);
    byId("band-words").textContent = bandText(list.stream);
    intruder.show(list.intruder);
    budget.setStream(list.stream);
    if (list.published_until?.tick) { status.tick(list.published_until.tick); budget.setTick(list.published_until.tick); }
    status.note("load", "");
    status.set(list.state);
    requestForm.setContext({ user: session.user, stream: list.stream, ledger });
  } catch (error) {
    handleError(error);
  }
}

function handleError(error) {
  if (error.status === 401) session.load().then((user) => setSignedOut(user === null), () => null);
  else if (!releases.stream) {
    status.set("unloaded");
    releases.showFailure(error.message, reload);
  } else if (error.status) status.note("load", `${error.message}.`, "bad");
  else handleLost();
}

/** Show the state of the run, unless the page is still loading. */
function setState({ state }) {
  if (!releases.stream) return;
  status.set(state);
  requestForm.updateShare();
}

function showHeading(stream) {
  document.title = `${stream.name} · Streamgauge`;
  status.start = stream.start;
  byId("stream-name").textContent = stream.name;
  const until = stream.ticks ? `, ${formatInteger(stream.ticks)} of them` : "";
  const demo = releases.demo ? " · synthetic data" : "";
  byId("stream-facts").textContent = `Ticks of ${formatDuration(stream.tick)}${until} · protects ${stream.unit}${demo}`;
}

/** Describe the band. If contributions are bounded, it covers the bounded count, not the truth. */
const bandText = ({ contributions }) => (contributions ? `it counts ${contributions}` : "the band contains the truth 95 times in 100");

function mayEnd(release) {
  const { user } = session;
  const open = release.end_tick === null || release.end_tick === undefined;
  return open && Boolean(release.requested_by) && (user?.role === "curator" || (user?.role === "analyst" && user.name === release.requested_by));
}

async function ended(name) {
  status.note("ending", "");
  status.say(`${name} was ended`);
  await reload();
}

async function endRefused(name, refusal) {
  await reload();
  status.note("ending", `${name} continues: ${refusal.message}.`, "bad");
}

start();
