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

function begin(collection) {
  const [[column, { values, settings }]] = Object.entries(collection.columns);
  const { epsilon: agreed } = claimOf(settings); // it is shown before anything is sent
  const crowd = new Crowd(values, column);
  pollOf({ collection, column, agreed, items: values, crowd, status })?.open();
  return crowd;
}

/** The crowd needs no device. */
function pollOf(told) {
  try {
    return new Poll(told);
  } catch {
    return withoutDevice();
  }
}

live.start();
