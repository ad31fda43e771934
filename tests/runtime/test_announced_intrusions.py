"""Announced intrusions: recorded before any export, survived as promised, and refused otherwise."""

import errno
import json
import os
from collections.abc import Callable
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from threading import Event as Flag
from typing import Any

import numpy as np
import pytest

from streamgauge.audit.exact.kernels import ForkedChance, list_branches
from streamgauge.noise.sampler_table import enclose_exp_minus
from streamgauge.panprivate import Density, LimitExceededError
from streamgauge.plan.measure import Tally
from streamgauge.plan.planner import plan_release
from streamgauge.runtime.intrusion import export as handed_over
from streamgauge.runtime.intrusion.export import ReleaseSnapshot
from streamgauge.runtime.intrusion.intrude import Intrusion, IntrusionError, intrude
from streamgauge.runtime.live.state import CLEAN_SHUTDOWN_PART
from streamgauge.runtime.release_run import ReleaseRun
from streamgauge.sources.http_ephemeral import EphemeralInbox
from streamgauge.store.errors import KeyRefusedError, StoreError, StoreUnwritableError
from streamgauge.store.keys import create_key, load_key
from streamgauge.store.lock import Lock
from streamgauge.store.store import Store
from streamgauge.testing.noise import InsecureNoise, SilentNoise
from tests.support.codes import has_code
from tests.support.forked import Fault, forked, killed_at
from tests.support.pipelines import Tables, event, pipeline, published, tables, world

PRIVATE: Tables = {"source": "http", "mode": "streaming", "pan_private": True}
COUNTS: Tables = {"name": "counts", "sql": "SELECT g, COUNT(*) FROM v GROUP BY g", "window": "running"}
USERS: Tables = {
    **PRIVATE,
    "unit": {"user": "u"},
    "budget": {"epsilon": 24},
    "columns": {"u": {"values": [f"u{i}" for i in range(400)]}},
}
DENSITY: Tables = {"name": "here", "sql": "SELECT DENSITY(u) FROM v", "window": "running", "epsilon": 12}
HEAVY: Tables = {**DENSITY, "name": "often", "sql": "SELECT HEAVY_FRACTION(u, 2) FROM v"}


def users(folder: Path, intrusions: int = 1, *releases: Tables) -> Any:
    return pipeline(folder, tables(*(releases or (DENSITY,)), **{**USERS, "reserved_intrusions": intrusions}))


def counts(folder: Path) -> Any:
    return pipeline(folder, tables(COUNTS, **PRIVATE, sinks=[]))


def run(made: Any, begin: float, until: float, **settings: Any) -> None:
    """Run between two seconds; one second after `begin`, three hundred users send one event each."""
    clock, stop = world(made.file.path.parent, at=begin), Flag()
    inbox = EphemeralInbox(max_waiting_bytes=10**6)
    sent = "\n".join(json.dumps(event(begin + 1, u=f"u{i}")) for i in range(300))
    clock.acts = {begin + 1: lambda: inbox.put("k", sent.encode()), until: stop.set}
    made.run(clock=clock, source=inbox, stop=stop, **settings)


def acts(made: Any) -> list[Tables]:
    return [dict(act.body) for act in made.ledger().ledger_entries if act.kind == "intrusion"]


def state_of(made: Any) -> dict[str, bytes]:
    folder = made.file.path.parent
    with Store.open_writer(made.file.folder, load_key("file:v.key", folder), create=False) as store:
        return store.state()


def test_export_has_all_state_and_manifest_describes_it(tmp_path: Path) -> None:
    made = users(tmp_path, 1, *({**each, "epsilon": 1} for each in (DENSITY, HEAVY)))  # many of the 400 bits change
    run(made, 0, 13)
    before = state_of(made)
    over = tmp_path / "court" / "case 7"
    observed = intrude(made.file, over)
    manifest = json.loads((over / "manifest.json").read_text())
    assert manifest == observed.manifest
    assert (manifest["intrusion"], manifest["tick"], manifest["open_tick"], manifest["positions"]) == (1, 1, 2, [])
    named = {array["file"] for each in manifest["releases"] for part in each["parts"] for array in part["arrays"]}
    named |= {each["file"] for each in manifest["other_state"]}
    assert named | {"manifest.json"} == {path.name for path in over.iterdir()}
    assert named == {"here.0.entries.npy", "often.0.entries.npy", "secret.npy"}
    assert np.load(over / "secret.npy").tobytes() == before["secret"]
    bits = np.load(over / "here.0.entries.npy")
    assert bits.shape == (400,)
    assert bits.tobytes() not in before["run/here/0"], "noise before"
    assert bits.tobytes() not in state_of(made)["run/here/0"], "and after"
    assert over.stat().st_mode & 0o077 == 0
    assert not over.with_name("case 7.partial").exists()


def test_manifest_lists_files_on_disk_and_journal_is_empty(tmp_path: Path) -> None:
    made = counts(tmp_path)
    run(made, 0, 13)
    texts = intrude(made.file, tmp_path / "over").manifest
    files = {each["file"]: each for each in texts["disk"]["files"]}
    assert {"store.db", "store.keys", "lock"} <= files.keys()
    for name, each in files.items():
        data = (made.file.folder / name).read_bytes()
        assert (each["bytes"], each["sha256"]) == (len(data), sha256(data).hexdigest())
    assert (texts["disk"]["key"], texts["journal_is_empty"]) == ("file:v.key", True)
    assert files.get("store.db-wal", {"bytes": 0})["bytes"] == 0


def test_counter_continues_after_intrusions_with_larger_errors(tmp_path: Path) -> None:
    made = counts(tmp_path)
    run(made, 0, 13, noise=SilentNoise())
    for number in (1, 2, 3):
        assert intrude(made.file, tmp_path / f"{number}", noise=SilentNoise()).number == number
    run(made, 13, 24, noise=SilentNoise())
    assert published(made) == [[300, 0], [600, 0]]
    first, later = (each.stddev[0, 0] for each in made.releases("counts"))
    assert later > first * 1.5
    assert made.plan().intrusions.to_json() == {"total": 3, "remaining": None}


def test_counter_of_failed_run_restarts_from_release_before_export(tmp_path: Path) -> None:
    made = counts(tmp_path)
    run(made, 0, 13, noise=SilentNoise())

    def fail(name: str) -> None:
        if name == "block_read":
            raise Fault(name)

    with pytest.raises(Fault):
        run(made, 13, 24, noise=SilentNoise(), step=fail)
    assert CLEAN_SHUTDOWN_PART not in state_of(made)
    texts = intrude(made.file, tmp_path / "over", noise=SilentNoise()).manifest
    assert texts["releases"][0]["parts"][0]["record"]["rerandomizations"] == 1
    assert [each["file"] for each in texts["other_state"]] == ["secret.npy"]
    assert np.load(tmp_path / "over" / "counts.0.total.npy").tolist() == [300, 0], "what was released"
    assert CLEAN_SHUTDOWN_PART in state_of(made)
    run(made, 15, 24, noise=SilentNoise())
    assert published(made) == [[300, 0], [600, 0]]


def test_table_error_grows_as_claimed_until_reserve_is_exhausted(tmp_path: Path) -> None:
    made, noise = users(tmp_path, 2), InsecureNoise(1)
    claim = plan_release(made.file, made.file.releases[0]).parts[0].statistic.counter
    run(made, 0, 13, noise=noise)
    for number, until in ((1, 24), (2, 34)):
        assert made.plan().intrusions.remaining == 3 - number
        intrude(made.file, tmp_path / f"{number}", noise=noise)
        run(made, until - 11, until, noise=noise)
    for number, each in enumerate(made.releases("here")):
        assert abs(each.value[0, 0] - 0.75) < 8 * each.stddev[0, 0]
        value = min(max(each.value[0, 0], 0), 1)
        assert each.stddev[0, 0] == pytest.approx(claim.stddev(value, intrusions=number))
    before = state_of(made)
    with pytest.raises(LimitExceededError, match="at most the 2 that the claim reserves"):
        intrude(made.file, tmp_path / "3")
    assert state_of(made) == before
    assert len(acts(made)) == 2
    assert "2 announced intrusions so far, 0 left" in str(made.plan())


def test_later_table_has_its_own_reserve(tmp_path: Path) -> None:
    run(users(tmp_path), 0, 13)
    intrude(users(tmp_path).file, tmp_path / "1")
    both = users(tmp_path, 1, DENSITY, HEAVY)
    run(both, 13, 24)
    with pytest.raises(LimitExceededError, check=has_code("intrusions_exhausted")):
        intrude(both.file, tmp_path / "2")
    other = users(tmp_path, 1, HEAVY)
    run(other, 24, 27)
    assert other.plan().intrusions.to_json() == {"total": 1, "remaining": 1}
    assert [each["release"] for each in intrude(other.file, tmp_path / "2").manifest["releases"]] == ["often"]


@pytest.mark.parametrize("step", ["rows_written", "transaction_committed", "state_copied"])
def test_intrusion_killed_at_any_step_exports_nothing_unrecorded(tmp_path: Path, step: str) -> None:
    made = users(tmp_path, 2)
    run(made, 0, 3)
    before = state_of(made)
    assert forked(lambda: intrude(made.file, tmp_path / "over", step=killed_at(step))) == -9
    recorded = step != "rows_written"
    assert not (tmp_path / "over").exists()
    assert not list(tmp_path.rglob("*.npy"))
    assert len(acts(made)) == recorded
    assert (state_of(made)["run/here/0"] != before["run/here/0"]) == recorded
    with pytest.raises(StoreError, match="which an interrupted export leaves"):
        intrude(made.file, tmp_path / "over")
    assert intrude(made.file, tmp_path / "again").number == 1 + recorded


def test_twin_that_exports_before_commit_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    observed = Intrusion.capture_release

    def hasty(self: Intrusion, run: ReleaseRun) -> ReleaseSnapshot:
        found = observed(self, run)
        np.save(tmp_path / "early.npy", next(iter(found.files.values()))[1])
        return found

    monkeypatch.setattr(Intrusion, "capture_release", hasty)
    made = users(tmp_path)
    run(made, 0, 3)
    assert forked(lambda: intrude(made.file, tmp_path / "over", step=killed_at("rows_written"))) == -9
    assert (len(acts(made)), len(list(tmp_path.rglob("*.npy")))) == (0, 1)


def full(*given: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_full_disk_is_detected_before_noise_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = users(tmp_path)
    run(made, 0, 3)
    before = state_of(made)
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StoreUnwritableError, match=r"got no space left on device at .*over: nothing was drawn"):
        intrude(made.file, tmp_path / "over")
    assert (state_of(made), acts(made)) == (before, [])
    assert not list(tmp_path.glob("over*"))


def test_disk_failure_after_commit_leaves_intrusion_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = users(tmp_path)
    run(made, 0, 3)
    monkeypatch.setattr(handed_over, "create_file", full)
    with pytest.raises(StoreUnwritableError, match="the intrusion is on record, and the exported state is lost"):
        intrude(made.file, tmp_path / "over")
    assert len(acts(made)) == 1
    assert not list(tmp_path.glob("over*"))
    with pytest.raises(LimitExceededError, check=has_code("intrusions_exhausted")):
        intrude(made.file, tmp_path / "over")


def ordinary(folder: Path) -> Any:
    return pipeline(folder, tables(live=True, source="http"))


def edited(folder: Path) -> Any:
    run(counts(folder), 0, 3)
    return pipeline(folder, tables(COUNTS, **PRIVATE, sinks=[], tick="20s"))


def empty(folder: Path) -> Any:
    return counts(folder)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (ordinary, "v.toml: pan_private must be true to survive an intrusion, got false"),
        (empty, "v.toml: pipeline must have run before an intrusion, got one without state"),
        (edited, "v.toml: stream must stay as it was at the first charge, got another tick"),
    ],
)
def test_intrusion_into_unsuitable_pipeline_is_refused(tmp_path: Path, make: Callable[..., Any], told: str) -> None:
    made = make(tmp_path)
    with pytest.raises(IntrusionError) as refused:
        intrude(made.file, tmp_path / "over")
    assert told in str(refused.value)
    assert not (tmp_path / "over").exists()


def test_intrusion_into_running_pipeline_is_refused_with_remedy(tmp_path: Path) -> None:
    made = counts(tmp_path)
    run(made, 0, 3)
    rule = f"process {os.getpid()} is using: stop that run or server"
    with Lock(made.file.folder), pytest.raises(IntrusionError, match=rule):
        intrude(made.file, tmp_path / "over")


def test_existing_folder_store_folder_and_wrong_key_are_refused(tmp_path: Path) -> None:
    made = counts(tmp_path)
    run(made, 0, 3)
    with pytest.raises(StoreError, match="export must go to a new folder"):
        intrude(made.file, tmp_path)
    (tmp_path / "link").symlink_to(made.file.folder)
    for inside in (made.file.folder / "over", tmp_path / "link" / "a" / "over"):
        with pytest.raises(StoreError, match="outside of the store's own"):
            intrude(made.file, inside)
    (tmp_path / "v.key").rename(tmp_path / "old.key")
    create_key(tmp_path / "v.key")
    with pytest.raises(KeyRefusedError, check=has_code("wrong_key")):
        intrude(made.file, tmp_path / "over")
    assert acts(made) == []


def test_dangling_link_as_parent_folder_is_refused(tmp_path: Path) -> None:
    made = counts(tmp_path)
    run(made, 0, 3)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StoreError, match=r"got .*link, which exists"):
        intrude(made.file, tmp_path / "link" / "over")
    assert acts(made) == []


ONE = {**USERS, "columns": {"u": {"values": ["robin"]}}, "reserved_intrusions": 1, "end": "2026-01-05T00:00:10Z"}


def visits(number: int) -> list[Tally]:
    """Return the tally of `number` visits of Robin in tick 1."""
    one = np.ones(min(number, 1), np.int64)
    return [Tally(one, 0 * one, 0 * one, number * one[None])]


def views(plan: Any, before: int, after: int) -> dict[Any, dict[int, Fraction]]:
    """Return P(unannounced view, export; ones of the table at its release), from all outcomes of the coins."""

    def happened(chance: ForkedChance) -> tuple[Any, int]:
        run = ReleaseRun.start(plan, "here", 1, chance)
        run.add_partial(visits(before), 1)
        looked = run.runs[0].run._state.entries.tobytes()
        run.add_partial(visits(after), 1)
        (handed,) = (array.tobytes() for _, array in ReleaseSnapshot.capture(run).files.values())
        went_on = ReleaseRun.load(plan, "here", 1, {k: bytes(v or b"") for k, v in run.save_state().items()}, chance)
        return (looked, handed), int(went_on.runs[0].run._state.entries.sum())

    found: dict[Any, dict[int, Fraction]] = {}
    for way in list_branches(happened):
        observed, ones = way.result
        sums = found.setdefault(observed, {0: Fraction(0), 1: Fraction(0)})
        sums[ones] += way.weight
    return found


def worst(plan: Any, one: tuple[int, int], two: tuple[int, int]) -> Fraction | None:
    """Return the largest ratio of the probabilities of all that is visible, with the published noisy count.

    Return None if something is visible for one stream only.
    """
    claim = plan.parts[0].statistic.counter
    decay = Fraction(enclose_exp_minus(1 / Fraction(claim.noise.scale), 64).high, 2**64)
    laws = [views(plan, *each) for each in (one, two)]
    ratios = []
    for observed in laws[0].keys() | laws[1].keys():
        for texts in range(-1, 3):
            masses = [sum(p * decay ** abs(texts - s) for s, p in law.get(observed, {}).items()) for law in laws]
            if not all(masses):
                return None
            ratios += [masses[0] / masses[1], masses[1] / masses[0]]
    return max(ratios)


@pytest.fixture
def plan(tmp_path: Path) -> Any:
    made = pipeline(tmp_path, tables({**DENSITY, "epsilon": 3}, **ONE))
    return plan_release(made.file, made.file.releases[0])


STREAMS = [(0, 1), (1, 0), (2, 1)]


@pytest.mark.parametrize("came", STREAMS, ids=str)
def test_breach_intrusion_and_release_together_satisfy_claim(plan: Any, came: tuple[int, int]) -> None:
    most = Fraction(2**64, enclose_exp_minus(Fraction(3), 64).high)
    found = worst(plan, came, (0, 0))
    assert found is not None
    assert 2 < found <= most


def test_export_without_prior_noise_breaks_claim(plan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stirred = Density.rerandomize

    def after_only(self: Density, state: Any, before: int, noise: Any) -> None:
        if before % 2:
            stirred(self, state, before, noise)

    monkeypatch.setattr(Density, "rerandomize", after_only)
    assert worst(plan, (0, 1), (0, 0)) is None
