"""The memory of a poll's page, read and written by tests."""

import json
from collections.abc import Callable
from typing import Any

DEVICE = "streamgauge favourite emoji"
BEFORE = "favourite emoji: devices before"
TOLD = """const told = (asked) => new Promise((done, failed) => {
    asked.onsuccess = () => done(asked.result);
    asked.onerror = asked.onblocked = () => failed(asked.error);
  });
"""
CLEAR = f"async () => {{ {TOLD} await told(indexedDB.deleteDatabase('streamgauge')); }}"
KEPT = f"""async () => {{ {TOLD}
  if (!(await indexedDB.databases()).length) return {{}};
  const database = await told(indexedDB.open('streamgauge'));
  const store = database.transaction('memories').objectStore('memories');
  const [names, texts] = await Promise.all([told(store.getAllKeys()), told(store.getAll())]);
  database.close();
  return Object.fromEntries(names.map((name, i) => [name, texts[i]]));
}}"""
WRITE = f"""async ([name, text]) => {{ {TOLD}
  const database = await told(indexedDB.open('streamgauge'));
  const turn = database.transaction('memories', 'readwrite');
  turn.objectStore('memories').put(text, name);
  await new Promise((done) => {{ turn.oncomplete = done; }});
  database.close();
}}"""


def memory(page: Any) -> dict[str, Any]:
    """Return the memory of the device."""
    found: dict[str, Any] = json.loads(page.evaluate(KEPT)[DEVICE])
    return found


def write_memory(page: Any, text: str, name: str = DEVICE) -> None:
    page.evaluate(WRITE, [name, text])


def change_memory(page: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    stored = memory(page)
    write_memory(page, json.dumps(stored | change(stored)))
