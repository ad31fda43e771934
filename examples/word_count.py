"""Word count, the first MapReduce program: private counts of declared words, tick by tick.

A record is a line of text. One line moves at most three words, so the noise of each count hides it.
"""

import streamgauge as sg
from streamgauge.mapreduce import Mapper, MapperError

SOURCE = """
def clean(word):
    return word.lower().strip()

def mapper(line):
    for word in line.split():
        emit(clean(word), 1)
"""
LINES = [
    ["the quick brown fox", "jumps over the lazy dog", "The dog sleeps"] * 200,
    ["a fox and a dog", "the end"] * 300,
]

words = Mapper(
    SOURCE, {"line": "text"}, keys=["the", "dog", "fox"], max_pairs=3, lower=0, upper=2, grid=1, reducer="sum"
)
print("one line moves the counts by at most", words.find_sensitivity(sg.Pure(1), horizon=24).l1)

run = words.start(sg.Pure(1), horizon=24)
for lines in LINES:
    counts = run.step({"line": lines})
    low, high = counts.interval()
    for place, word in enumerate(words.keys):
        print(
            f"tick {run.tick}  {word:4} {counts.value[place]:7.0f}  95 % within {low[place]:.0f} to {high[place]:.0f}"
        )

shout = Mapper(
    "def mapper(key, value):\n    emit('words', value)\n",
    {"key": "text", "value": "number"},
    keys=["words"],
    max_pairs=1,
    lower=0,
    upper=6,
    grid=1,
    reducer="mean",
)
means = words.then(shout).start(sg.Pure(1), horizon=24).step({"line": LINES[0]})
print(f"declared words in a line that has any: {means.value[0]:.2f} +- {means.stddev[0]:.2f}")

try:
    Mapper("def mapper(line):\n    seen.append(line)\n", {"line": "text"}, keys=["any"])
except MapperError as refusal:
    print("refused:", refusal)
