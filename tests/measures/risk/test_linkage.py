"""Linkage by nearest neighbour: units and far records."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from measured import two_columns

from ruvdecision.errors import InputError
from ruvdecision.measures import FellegiSunter, IntervalDisclosure, RecordLinkage


@pytest.mark.parametrize("distance", ["standardised", "mahalanobis"])
def test_linkage_does_not_depend_on_the_unit(distance: str) -> None:
    original, released = two_columns(), two_columns() + 0.3 * two_columns(1)
    measure = RecordLinkage(distance=distance)
    assert 0 < measure(original, released) < 1
    for unit in (2.0**-700, 2.0**400):
        assert measure(original * unit, released * unit) == measure(original, released)


@pytest.mark.slow
@pytest.mark.parametrize("link", ["released to original", "original to released"])
def test_one_far_record_makes_no_ties_of_the_others(link: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    y = x + rng.normal(0, 0.003, 300)
    far = y.copy()
    far[0] = 1e11
    measure = RecordLinkage(link=link)
    before, after = measure.per_record(x, y), measure.per_record(x, far)
    assert 0.5 < before.mean() < 0.9
    changed = np.flatnonzero(before != after)
    # Only the record itself, and those that were linked to it or had it as a rival, may change.
    assert len(changed) <= 3 and after.mean() == pytest.approx(before.mean(), abs=0.01)
    brute = (np.abs(x[:, None] - far) if link == "original to released" else np.abs(far[:, None] - x)).argmin(axis=1)
    # From so far away all originals are equally near, so the record itself is left out.
    assert after[1:].tolist() == (brute == np.arange(300)).astype(float)[1:].tolist()
    # The other kernel, which finds all neighbours, agrees.
    found = measure.links(x, far)
    assert found["linked"][found["row"] > 0].tolist() == brute[1:].tolist()


# -- far from zero ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["int64", "uint64", "Int64", "int64[pyarrow]"])
@pytest.mark.parametrize("measure", [RecordLinkage(), RecordLinkage(distance="rank"), FellegiSunter(tolerance_sd=0.0)])
def test_whole_numbers_beyond_53_bits_are_told_apart(measure, kind) -> None:
    """As floats 2^60 + i is 2^60 for every i up to 64."""
    if "pyarrow" in kind:
        pytest.importorskip("pyarrow")
    data = pd.DataFrame({"id": pd.Series([2**60 + i for i in range(50)], dtype=kind)})
    assert measure(data, data) == pytest.approx(1.0)
    assert measure(data - 2**60, data - 2**60) == pytest.approx(1.0)
    mixed = data.astype("int64")["id"].to_numpy()
    near = pd.DataFrame({"id": np.where(np.arange(50) % 2, mixed, np.roll(mixed, 1))})
    small = measure(pd.DataFrame({"id": np.arange(50)}), near - 2**60)
    assert measure(pd.DataFrame({"id": mixed}), near) == pytest.approx(float(small))


def test_whole_numbers_at_the_ends_of_their_range() -> None:
    for ends in ([-(2**63), 2**63 - 1, 0], [2**64 - 1, 2**64 - 2, 2**64 - 3]):
        data = pd.DataFrame({"id": ends})
        assert RecordLinkage()(data, data) == pytest.approx(1.0)


@pytest.mark.parametrize("offset", [1e6, 1e8, 1e10])
@pytest.mark.parametrize(
    "measure", [RecordLinkage(), RecordLinkage(distance="mahalanobis"), FellegiSunter(tolerance_sd=1e-4)]
)
def test_a_large_offset_makes_no_ties(measure, offset: float) -> None:
    rng = np.random.default_rng(1)
    original = pd.DataFrame(np.round(rng.normal(size=(300, 2)) * 2**14) / 2**14, columns=["a", "b"])
    released = original + np.round(rng.normal(size=(300, 2)) * 2**12) / 2**14 / 100
    expected = float(measure(original, released))
    assert float(measure(original + offset, released + offset)) == pytest.approx(expected, abs=0.01)
    assert float(measure(original + offset, original + offset)) == pytest.approx(float(measure(original, original)))


def test_a_longer_release_is_linked_by_its_labels() -> None:
    """Several released records of one respondent: each looks for its original, as one file after another would."""
    rng = np.random.default_rng(5)
    original = pd.DataFrame(rng.normal(size=(30, 2)), columns=["a", "b"])
    copies = [original + 0.3 * rng.normal(size=(30, 2)) for _ in range(3)]
    together = pd.concat(copies)
    for measure in (RecordLinkage(), FellegiSunter(), IntervalDisclosure(width_sd=0.2)):
        found = measure.per_record(original, together)
        assert len(found) == 90
        if not isinstance(measure, FellegiSunter):  # whose probabilities are fitted to all pairs
            alone = np.concatenate([measure.per_record(original, copy) for copy in copies])
            np.testing.assert_allclose(found, alone)
            assert float(measure(original, together)) == pytest.approx(alone.mean())
    with pytest.raises(InputError, match="each original's own record"):
        RecordLinkage(link="original to released")(original, together)
    with pytest.raises(InputError, match=r"whose rows.*replicated_uniques"):
        RecordLinkage()(original, together.reset_index(drop=True))
