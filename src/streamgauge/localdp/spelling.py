"""Words cut into prefixes, level by level: how a word is found that is on no list.

    length 5, step 2        level 0   level 1   level 2
    "banana"                ba        bana      banan       cut to 5 letters
    "nab"                   na        nab.      nab         ended: the dot stands for END
    "no!"                   no        no.       no          "!" is not in the alphabet

A prefix says that a word has ended if it has; at the last level every word is whole, and needs no END.
A word is cleaned by itself: letters (code points) outside the alphabet are dropped, then it is cut. What has
no letter left is the empty word, which is counted as any other.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import product

from streamgauge.localdp.hashing import text_of

END = "\0"
Words = tuple[str, ...]


@dataclass(frozen=True)
class Spelling:
    """How words of an alphabet are spelt, `step` letters a level."""

    alphabet: str
    length: int
    step: int

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """How many letters the prefixes of each level have."""
        return tuple(min(end, self.length) for end in range(self.step, self.length + self.step, self.step))

    @property
    def levels(self) -> int:
        return len(self.ends)

    @cached_property
    def letters(self) -> frozenset[str]:
        return frozenset(self.alphabet)

    def cleaned(self, item: object) -> str:
        """Of an item its letters, cut to the length; never raises."""
        text = text_of(item).decode()
        return "".join(letter for letter in text if letter in self.letters)[: self.length]

    def prefix(self, word: str, level: int) -> str:
        """Of a clean word."""
        end = self.ends[level]
        return word[:end] if len(word) >= end or level == self.levels - 1 else word + END

    def prefixes(self, item: object) -> Words:
        """Of an item, at every level."""
        word = self.cleaned(item)
        return tuple(self.prefix(word, level) for level in range(self.levels))

    def extended(self, prefixes: Words, level: int) -> Words:
        """All prefixes of a level that begin as some of the level before it do."""
        tails = self.tails(level)
        ending = "" if level == self.levels - 1 else END
        ended = tuple(each[:-1] + ending for each in prefixes if each.endswith(END))
        return ended + tuple(each + tail for each in prefixes if not each.endswith(END) for tail in tails)

    def tails(self, level: int) -> Words:
        """By what a prefix may go on to a level."""
        more = self.ends[level] - (self.ends[level - 1] if level else 0)
        ending = "" if level == self.levels - 1 else END
        short = tuple(
            "".join(each) + ending for size in range(more) for each in product(self.alphabet, repeat=size)
        )
        return short + tuple("".join(each) for each in product(self.alphabet, repeat=more))

    @property
    def branches(self) -> int:
        """The most ways in which a prefix goes on: letters up to the step, or fewer."""
        return branches(len(self.alphabet), min(self.step, self.length))


def branches(letters: int, step: int) -> int:
    """1 + letters + ... + letters^step.

    >>> branches(26, 2)
    703
    """
    return sum(letters**size for size in range(step + 1))
