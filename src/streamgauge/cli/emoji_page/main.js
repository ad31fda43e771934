// The page of the poll: what is collected, the crowd, and beside them this device, if the browser lets it remember.

import { ask } from "/page/api.js";
import { Live } from "/page/live.js";
import { Status } from "/page/status.js";
import { claimOf } from "./client.js";
import { Crowd } from "./crowd.js";
import { Poll, withoutDevice } from "./poll.js";
import { sentence } from "./words.js";

const status = new Status(() => live.start());
const live = new Live({ opened, lost: () => status.set("lost"), release, reset: opened, ledger: () => null, status: ({ state }) => status.set(state) });
let begun = null; // a promise of the crowd, once it was asked what is collected
let shown = null;

async function opened() {
  try {
    shown = await (begun ??= ask("/api/collection").then(begin));
    await shown.load();
    status.note("load", "");
  } catch (error) {
    if (!shown) begun = null;
    status.note("load", sentence(error.message), "bad");
  }
}

function release(event) {
  status.tick(event.tick);
  shown?.take(event);
}

function begin({ columns }) {
  const [[column, { values, settings }]] = Object.entries(columns);
  const claim = claimOf(settings);
  const crowd = new Crowd(values, column);
  deviceOf({ claim, items: values, crowd, status })?.open();
  return crowd;
}

/** The crowd needs none. */
function deviceOf(told) {
  try {
    return new Poll(told);
  } catch {
    return withoutDevice();
  }
}

live.start();
