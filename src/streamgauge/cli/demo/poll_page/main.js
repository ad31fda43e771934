// The page of the poll: the collection, the crowd, and this device, if the browser allows storage.

import { ask } from "/page/api.js";
import { Live } from "/page/live.js";
import { Status } from "/page/status.js";
import { Crowd } from "./crowd.js";
import { Poll } from "./poll.js";
import { sentence } from "./words.js";

const status = new Status(() => live.start());
const live = new Live({ opened, lost: () => status.set("lost"), release, reset: opened, ledger: () => null, status: ({ state }) => status.set(state) });
const crowd = new Crowd();
const poll = new Poll({ crowd, status, changed });
let shown = null; // the collection as text

async function opened() {
  try {
    await changed();
    await crowd.load();
    status.note("load", "");
  } catch (error) {
    status.note("load", sentence(error.message), "bad");
  }
}

/** Return whether the server has another poll, and show that one. A server may restart. */
async function changed() {
  const collection = await ask("/api/collection");
  const told = JSON.stringify(collection);
  if (told === shown) return false;
  const [[column, { values }]] = Object.entries(collection.columns);
  crowd.begin(values, column);
  poll.open(collection, column, values);
  shown = told;
  return true;
}

function release(event) {
  status.tick(event.tick);
  if (shown !== null) crowd.take(event);
}

live.start();
