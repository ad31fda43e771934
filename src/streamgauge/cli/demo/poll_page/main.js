// The poll page: the collection, the crowd, and this device if the browser allows storage.

import { request } from "/page/api.js";
import { Live } from "/page/live.js";
import { Status } from "/page/status.js";
import { Crowd } from "./crowd.js";
import { Poll } from "./poll.js";
import { toSentence } from "./words.js";

const status = new Status(() => live.start());
const live = new Live({ opened: reload, lost: () => status.set("lost"), release: addRelease, reset: reload, ledger: () => null, status: ({ state }) => status.set(state) });
const crowd = new Crowd();
const poll = new Poll({ crowd, status, onStale: reloadCollection });
let shownCollection = null; // the collection as text

async function reload() {
  try {
    await reloadCollection();
    await crowd.load();
    status.note("load", "");
  } catch (error) {
    status.note("load", toSentence(error.message), "bad");
  }
}

/** Load the collection. If it is another poll, show it and return true. The server may have restarted. */
async function reloadCollection() {
  const collection = await request("/api/collection");
  const text = JSON.stringify(collection);
  if (text === shownCollection) return false;
  const [[column, { values }]] = Object.entries(collection.columns);
  crowd.setItems(values, column);
  poll.open(collection, column, values);
  shownCollection = text;
  return true;
}

function addRelease(event) {
  status.tick(event.tick);
  if (shownCollection !== null) crowd.addTick(event);
}

live.start();
