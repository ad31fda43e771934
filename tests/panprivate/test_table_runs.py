"""Table runs, as an attacker sees them: no exact data in memory, no text that depends on users."""

import copy
import pickle
from fractions import Fraction

import numpy as np
import pytest

from streamgauge.continual.state_io import InvalidSaveError, pack
from streamgauge.memory import WipedArrays
from streamgauge.noise import SecureNoise
from streamgauge.panprivate import (
    CroppedMean,
    Density,
    HeavyFraction,
    Incidence,
    LimitExceededError,
    ModularIncidence,
    MultiplicativeDensity,
)
from streamgauge.panprivate.cycle import Cycle
from streamgauge.privacy import Pure, XAdjacent
from streamgauge.testing.noise import InsecureNoise, SilentNoise
from tests.support.codes import has_code
from tests.support.every_draw import views
from tests.support.saved_states import read_state

HALF = Fraction(1, 2)
CLAIMS = {
    "density": Density(Pure(1), universe=64, intrusions=1),
    "sampled": Density(Pure(1), universe=64, sample=16, split=HALF),
    "hashed": Density(Pure(1), universe=64, hashed=True, split=HALF),
    "cropped": CroppedMean(Pure(1), universe=64, limit=3, intrusions=1, law="paper"),
    "heavy": HeavyFraction(Pure(1), universe=64, at_least=3, split=HALF),
    "crowded": CroppedMean(Pure(1), universe=64, limit=3, hashed=True, split=HALF),
    "incidence": Incidence(Pure(1), universe=64, exactly=3, split=HALF),
    "multiplicative": MultiplicativeDensity(Pure(1), universe=64, smallest=4, split=HALF),
}
BYTES = {
    "crowded": 2,
    "density": 1,
    "sampled": 1,
    "hashed": 1,
    "cropped": 2,
    "heavy": 2,
    "incidence": 2,
    "multiplicative": 1,
}
CROWD = np.arange(200) % 64
every_claim = pytest.mark.parametrize("name", CLAIMS)


@every_claim
def test_texts_and_sizes_do_not_depend_on_users(name):
    said = []
    for users in ([], CROWD, [0] * 1000):
        run = CLAIMS[name].start()
        run.add(users)
        said.append((repr(run), run.record, len(run.save()), repr(run._state), sorted(vars(run))))
    assert said[0] == said[1] == said[2]


@every_claim
def test_a_saved_run_is_its_table_and_its_record(name):
    run = CLAIMS[name].start()
    run.add(CROWD)
    saved, table = run.save(), run._state.entries
    assert table.nbytes == BYTES[name] * CLAIMS[name].entries
    assert saved.endswith(table.tobytes() + saved[-32:])
    assert len(saved) < table.nbytes + 1200
    assert run.record == {"releases": 0, "intrusions": 0, "saves": 1}


@every_claim
def test_loaded_run_continues_like_the_saved_one(name):
    claim = CLAIMS[name]
    noise = InsecureNoise(1)
    first = claim.start(noise=noise)
    first.add(CROWD)
    second = claim.load(first.save(), noise=noise.clone())
    for run in (first, second):
        run.add([1, 2, 3, 3])
    assert first.estimate().value == second.estimate().value
    assert second.record == first.record
    assert (read_state(first).entries == read_state(second).entries).all()
    with pytest.raises(InvalidSaveError):
        Density(Pure(2), universe=64).load(first.save())


def test_loaded_run_preserves_its_number_of_intrusions():
    run = CLAIMS["density"].start()
    run.intrude()
    loaded = CLAIMS["density"].load(run.save())
    assert loaded.intrusions == 1
    with pytest.raises(LimitExceededError, check=has_code("intrusions_exhausted")):
        loaded.intrude()


@every_claim
def test_no_input_or_draw_survives_a_step(name, monkeypatch):
    kept, keep = [], WipedArrays.__call__
    monkeypatch.setattr(WipedArrays, "__call__", lambda self, array: kept.append(array) or keep(self, array))
    run = CLAIMS[name].start()
    for users in (CROWD, CROWD.astype(np.float64), list(CROWD), CROWD.astype(np.int16)):
        kept.clear()
        run.add(users)
        read = [array for array in kept if array.dtype.itemsize == 8]
        assert read
        assert not any(array.any() for array in kept)


class Captured(InsecureNoise):
    """Noise that records every array that it returns."""

    def __init__(self, seed):
        super().__init__(seed)
        self.handed = []

    def kept(self, drawn):
        self.handed.append(drawn)
        return drawn

    def coins(self, chance, size):
        return self.kept(super().coins(chance, size))

    def uniform(self, sides, size):
        return self.kept(super().uniform(sides, size))

    def laplace(self, scale, size):
        return self.kept(super().laplace(scale, size))


@pytest.mark.parametrize("name", [*CLAIMS, "modular"])
def test_draws_and_sums_of_a_release_are_overwritten(name, monkeypatch):
    """A release minus its draw is exact, so draws, sums and table copies are overwritten."""
    kept, keep = [], WipedArrays.__call__
    monkeypatch.setattr(WipedArrays, "__call__", lambda self, array: kept.append(array) or keep(self, array))
    noise = Captured(1)
    claim = CLAIMS.get(name) or ModularIncidence(Pure(1), universe=64, modulus=3, split=HALF)
    run = claim.start(noise=noise)
    noise.handed.clear(), kept.clear()
    released = claim.release(run._state, noise)
    assert noise.handed
    assert len(kept) > len(noise.handed)  # the sums too
    assert released.any()
    assert not any(array.any() for array in [*kept, *noise.handed])


@pytest.mark.parametrize("name", ["cropped", "heavy", "modular"])
def test_no_copy_of_the_first_table_is_left(name, monkeypatch):
    noise, fresh, made = Captured(1), [], Cycle._draw_entries
    monkeypatch.setattr(Cycle, "_draw_entries", lambda *known: fresh.append(made(*known)) or fresh[-1])
    claim = CLAIMS.get(name) or ModularIncidence(Pure(1), universe=64, modulus=3, split=HALF)
    run = claim.start(noise=noise)
    assert read_state(run).entries.any()
    assert noise.handed
    assert not any(array.any() for array in [*fresh, *noise.handed])


@pytest.mark.parametrize("generator", [(user for user in (1, 2)), iter([1]), map(int, "12")], ids=type)
def test_generator_of_users_is_refused_with_an_error(generator):
    run = ModularIncidence(Pure(1), universe=64, modulus=3, split=HALF).start()
    for act in (run.add, run.remove):
        with pytest.raises(TypeError, match=r"^users must be a batch such as an array or a list, got "):
            act(generator)
    run.add({1, 2})  # still whole


@pytest.mark.parametrize("name", CLAIMS)
def test_predictions_for_impossible_values_are_refused(name):
    claim = CLAIMS[name]
    for value in (-5.0, float("nan"), *(() if claim.hashed else (claim.highest + 1,))):
        with pytest.raises(ValueError, match=r"^value must be between 0 and .*, got"):
            claim.stddev(value)
    for made in (claim.intrusions + 1, -1):
        with pytest.raises(ValueError, match=r"^intrusions must be"):
            claim.stddev(0.5, made)


@pytest.mark.parametrize(
    "asked",
    [
        (CroppedMean, {"limit": 4096, "intrusions": 30}),
        (ModularIncidence, {"modulus": 256, "intrusions": 200}),
        (Density, {"intrusions": 200, "split": HALF}),
    ],
)
def test_loss_too_small_for_its_settings_is_refused(asked):
    kind, settings = asked
    with pytest.raises(ValueError, match=r"^loss must be "):
        kind(Pure(Fraction(1, 100)), universe=1000, **settings)


@every_claim
def test_draws_of_added_users_are_overwritten(name):
    noise = Captured(1)
    run = CLAIMS[name].start(noise=noise)
    noise.handed.clear()
    run.add(CROWD)
    assert noise.handed
    assert not any(coins.any() for coins in noise.handed)


def test_batch_of_users_is_not_modified():
    users = CROWD.copy()
    for claim in CLAIMS.values():
        claim.start().add(users)
    assert (users == CROWD).all()


class Scripted(InsecureNoise):
    """Noise with scripted coins."""

    def __init__(self, *coins):
        super().__init__(0)
        self.script = list(coins)

    def coins(self, chance, size):
        return np.array([self.script.pop(0) for _ in range(size)], np.uint8)


@pytest.mark.parametrize("bit", [0, 1])
@pytest.mark.parametrize("draws", [(0, 1), (1, 0)])
def test_stored_draw_does_not_depend_on_the_bit(bit, draws):
    run = Density(Pure(1), universe=1, split=HALF).start(noise=Scripted(bit, *draws))
    run.add([0, 0])
    assert read_state(run).entries.tolist() == [draws[1]]


@pytest.mark.parametrize(
    "claim", [Density(Pure(1), universe=2, split=HALF), CroppedMean(Pure(1), universe=2, limit=2, split=HALF)]
)
def test_result_does_not_depend_on_batch_boundaries(claim):
    assert views(claim, [[0, 1, 0], "see"]) == views(claim, [[0], [1], [0], "see"])


@every_claim
def test_releases_and_intrusions_beyond_the_claim_are_refused(name):
    claim = CLAIMS[name]
    run = claim.start()
    run.estimate()
    for _ in range(claim.intrusions):
        assert run.intrude().entries.shape == (claim.entries,)
    with pytest.raises(LimitExceededError, match="releases must be at most the 1 that the claim pays for"):
        run.estimate()
    with pytest.raises(LimitExceededError, match=f"at most the {claim.intrusions} that the claim reserves"):
        run.intrude()
    run.add(CROWD)  # still whole
    assert run.record == {"releases": 1, "intrusions": claim.intrusions, "saves": 0}


@every_claim
def test_intrusion_view_differs_from_tables_before_and_after(name):
    if CLAIMS[name].intrusions:
        tables = []
        for _ in range(3):
            run = CLAIMS[name].start()
            before, seen = read_state(run).entries.copy(), run.intrude().entries
            tables += [(before == seen).all(), (seen == read_state(run).entries).all()]
        assert not any(tables)


@every_claim
def test_the_loss_is_divided_as_claimed(name):
    claim = CLAIMS[name]
    spent = (claim.intrusions + 1) * claim.state_loss.epsilon + claim.releases * claim.output_loss.epsilon
    assert spent == claim.loss.epsilon
    assert claim.unit == XAdjacent()


def test_runs_are_neither_copied_nor_pickled():
    run = CLAIMS["density"].start()
    for act in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            act(run)
    with pytest.raises(TypeError, match="remove must not be called on Density: users can be added only"):
        run.remove([1])


REFUSED = [
    ({"universe": 0}, "universe must be a whole number of at least 1, got 0"),
    ({"universe": 2**41}, r"universe must be at most 2\*\*40"),
    ({"universe": 5, "sample": 6}, "sample must be at most the universe 5, got 6"),
    ({"universe": 5, "releases": 0}, "releases must be a whole number of at least 1, got 0"),
    ({"universe": 5, "intrusions": -1}, "intrusions must be a whole number of at least 0, got -1"),
    ({"universe": 5, "split": 1}, "split must be above 0 and below 1, got 1"),
    ({"universe": 5, "law": "other"}, "law must be one of symmetric, paper, got 'other'"),
    ({"universe": 5, "hashed": 1}, 'hashed must be True, False or "before", got 1'),
    ({"universe": 5, "seed": -1}, "seed must be a whole number of at least 0, got -1"),
]


@pytest.mark.parametrize(("settings", "words"), REFUSED)
def test_settings_that_make_no_claim_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        Density(Pure(1), **settings)


def test_losses_and_lengths_that_make_no_claim_are_refused():
    with pytest.raises(ValueError, match="loss must be at most 3/2 an entry for the paper's law, got 8"):
        Density(Pure(16), universe=5, law="paper", split=HALF)
    with pytest.raises(ValueError, match=r"loss must be at least 2\*\*-29 an entry"):
        Density(Pure(Fraction(1, 2**31)), universe=5)
    with pytest.raises(ValueError, match="limit must be at most 16384"):
        CroppedMean(Pure(1), universe=5, limit=2**14 + 1)
    with pytest.raises(ValueError, match="at_least must be a whole number of at least 1, got 0"):
        HeavyFraction(Pure(1), universe=5, at_least=0)
    with pytest.raises(ValueError, match="sample must be None"):
        MultiplicativeDensity(Pure(1), universe=5, sample=2)
    with pytest.raises(ValueError, match="hashed must be True or False for tables that hash by themselves"):
        MultiplicativeDensity(Pure(1), universe=5, hashed="before")
    for noise in (SecureNoise(), SilentNoise()):
        with pytest.raises(ValueError, match="noise must"):
            CLAIMS["density"].start(noise=noise)


def test_long_cycle_accepts_a_batch_of_one_user():
    claim = CroppedMean(Pure(40), universe=2, limit=2**14, split=HALF)
    run = claim.start(noise=InsecureNoise(1))
    run.add(np.zeros(2**16, np.int64))
    assert read_state(run).entries.max() < 2 * claim.limit
    assert read_state(run).entries[0] % 2 == 1  # except with probability e^-20


def test_save_of_an_earlier_calibration_is_refused():
    claim = CLAIMS["density"]
    record = {"releases": 0, "intrusions": 0, "saves": 1}
    earlier = pack(repr(claim), claim.entries, record, claim.blank_table(claim.entries))
    with pytest.raises(
        InvalidSaveError, match=r"\) by own chance \(one without .* earlier version.*, got one of .*\)$"
    ):
        claim.load(earlier)
