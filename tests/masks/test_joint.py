"""Several releases of the same records: what `&` makes, gives out and is called."""

from __future__ import annotations

import pickle
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import ruvdecision as ruv
from ruvdecision.channels.linear import LinearChannel
from ruvdecision.channels.samples import sample_cases
from ruvdecision.channels.steps import FileFacts, resolve
from ruvdecision.masks.base import Batch, Joint

NOISE, ROUND, AVERAGE = ruv.Noise(variance=2), ruv.Round(base=5), ruv.Microaggregate(groups=1)
X = np.array([1.0, 8.0, 3.0, 12.0])
BUILT = [
    NOISE & ROUND,
    (NOISE | AVERAGE) & ROUND,
    NOISE | (ROUND & AVERAGE),
    NOISE & ROUND & AVERAGE,
    ROUND | ((NOISE | (AVERAGE & ruv.Suppress(rows=[1]))) & ruv.Release(rows=[2])),
]


@pytest.mark.parametrize("mask", BUILT, ids=str)
def test_a_joint_mask_is_written_as_it_is_read(mask):
    again = eval(repr(mask), vars(ruv))
    assert again == mask and hash(again) == hash(mask) and again.family == mask.family
    assert pickle.loads(pickle.dumps(mask)) == mask
    assert str(mask) == repr(mask)


def test_names():
    mask = (NOISE | AVERAGE) & ruv.Noise(variance=3)
    assert repr(mask) == "(Noise(variance=2) | Microaggregate(groups=1)) & Noise(variance=3)"
    assert mask.technique == "(Noise | Microaggregate) & Noise"
    assert mask.parameters() == {"variance": 2.0, "groups": 1, "variance_2": 3.0}
    assert mask != ruv.Noise(variance=3) & (NOISE | AVERAGE)
    assert mask.file_count == 2 and NOISE.file_count == 1 and BUILT[-1].file_count == 3


def test_a_grid_is_one_family():
    masks = Batch([ruv.Noise(variance=float(v)) & AVERAGE for v in range(1, 6)])
    assert len(masks.families) == 1 and masks.families[0].numbers[:, 0].tolist() == [1, 2, 3, 4, 5]


def test_brackets_do_not_matter_among_several():
    assert (NOISE & ROUND) & AVERAGE == NOISE & (ROUND & AVERAGE) == Joint((NOISE, ROUND, AVERAGE))


def test_each_release_is_of_the_kind_that_came_in_and_masked_by_its_own_mask():
    frame = pd.DataFrame({"a": X, "b": X + 1}, index=list("wxyz"))
    noisy, rounded = (NOISE & ROUND).release(frame, 1)
    assert list(noisy.columns) == ["a", "b"] and list(rounded.index) == list("wxyz")
    pd.testing.assert_frame_equal(rounded, ROUND.release(frame))
    assert not noisy.equals(frame)
    vector, average = (ruv.Release() & AVERAGE).release(X, 1)
    assert np.array_equal(vector, X) and np.array_equal(average, np.full(4, X.mean()))


def test_releases_are_independent_and_have_streams_of_their_own():
    x = np.zeros(40_000)
    one, two = (ruv.Noise(sd=1) & ruv.Noise(sd=1)).release(x, 3)
    assert abs(np.corrcoef(one, two)[0, 1]) < 4 / np.sqrt(len(x))
    assert np.array_equal(one, (ruv.Noise(sd=1) & (ROUND | NOISE | AVERAGE)).release(x, 3)[0])
    assert np.array_equal(two, ((ROUND | NOISE | AVERAGE) & ruv.Noise(sd=1)).release(x, 3)[1])


def test_what_goes_before_is_shared_and_what_follows_is_not():
    one, two = (ruv.Noise(sd=1) | (ruv.Release() & ruv.Release())).release(X, 1)
    assert np.array_equal(one, two) and not np.array_equal(one, X)
    after = (ruv.Release() & ruv.Release()) | ruv.Noise(sd=1)
    assert after == (ruv.Release() | ruv.Noise(sd=1)) & (ruv.Release() | ruv.Noise(sd=1))
    assert not np.array_equal(*after.release(X, 1))
    assert (ROUND | (NOISE & AVERAGE)) | ROUND == ROUND | ((NOISE | ROUND) & (AVERAGE | ROUND))


def test_what_does_not_compose_is_refused():
    with pytest.raises(ruv.InputError, match="Only masks compose with &"):
        NOISE & 3
    with pytest.raises(ruv.InputError, match="at least two masks"):
        Joint((NOISE,))
    with pytest.raises(ruv.InputError, match="only end a chain"):
        ruv.masks.base.Chain((NOISE & ROUND, ROUND))
    with pytest.raises(ruv.UnsupportedError, match="compares one release"):
        ruv.measure(pd.DataFrame({"a": X}), [NOISE & ROUND], measures=[ruv.measures.IntervalOverlap("a ~ 1")])


def test_release_of_some_rows_and_columns():
    frame = pd.DataFrame({"a": X, "b": X + 1})
    shown = ruv.Release(rows=[1, -1], columns="b").release(frame)
    assert shown.isna().to_numpy().tolist() == [[True, True], [True, False], [True, True], [True, False]]
    assert shown["b"].dropna().tolist() == [9.0, 13.0]
    pd.testing.assert_frame_equal(ruv.Release(columns=["a", "b"]).release(frame), frame)
    assert repr(ruv.Release(rows=[1])) == "Release(rows=[1])" and repr(ruv.Release()) == "Release()"
    with pytest.raises(ruv.InputError, match="must not be empty"):
        ruv.Release(rows=[])
    with pytest.raises(ruv.InputError):
        ruv.Release(rows=[4]).release(frame)


# -- the channel ---------------------------------------------------------------------------------------------

S = np.array([[2.0, 0.6], [0.6, 1.0]])
PARTS = [
    ruv.Noise(covariance=[[1.0, 0.3], [0.3, 0.5]]),
    ruv.Microaggregate(groups=2),
    ruv.Noise(variance=[1.0, 2.0]) | ruv.Microaggregate(groups=2) | ruv.Noise(variance=0.3),
    ruv.Noise(variance=0.7, common=True),
    ruv.Suppress(rows=[1]) | ruv.Noise(variance=1.0),
    ruv.Release(columns=[1]),
    ruv.Noise(variance=np.inf),
    ruv.Suppress(),
]


def dense(mask, n=5, k=2):
    """A and R with the entries record by record, and the releases of each side by side."""
    return LinearChannel.of(mask, FileFacts(n, tuple(range(k)), S[:k, :k])).dense()


@pytest.mark.parametrize(("first", "second"), list(combinations(PARTS, 2)), ids=str)
def test_channels_stack(first, second):
    n, k = 5, 2
    a, r = dense(first & second)
    a = a.reshape(n, 2, k, n * k)
    r = r.reshape(n, 2, k, n, 2, k)
    for i, part in enumerate((first, second)):
        own, noise = dense(part)
        assert a[:, i].reshape(n * k, n * k) == pytest.approx(own, abs=1e-12)
        assert r[:, i, :, :, i].reshape(n * k, n * k) == pytest.approx(noise, abs=1e-12)
    assert np.abs(r[:, 0, :, :, 1]).max() == 0  # independent given the records


def test_noise_before_both_is_common_to_both():
    n, k = 4, 1
    a, r = dense(ruv.Noise(variance=2.0) | (ruv.Noise(variance=0.5) & AVERAGE), n, k)
    r = r.reshape(n, 2, n, 2)
    flat = np.full((n, n), 1 / n)
    assert a.reshape(n, 2, n)[:, 1] == pytest.approx(flat)
    assert r[:, 0, :, 0] == pytest.approx(2.5 * np.eye(n))
    assert r[:, 1, :, 1] == pytest.approx(2.0 * flat)
    assert r[:, 0, :, 1] == pytest.approx(2.0 * flat)


@pytest.mark.parametrize("other", [NOISE, ruv.Microaggregate(groups=2), ruv.Suppress(rows=[0, 3])], ids=str)
def test_kinds_of_samples_are_all_samples(other):
    n, kept = 6, 2
    found = resolve(other & ruv.Subsample(size=kept), FileFacts(n, (0,), np.eye(1)))
    cases, complete = sample_cases(found, n, [1], 10, None)
    label = np.zeros(n, dtype=int) if other is NOISE else found[1].step.rows.row_labels()

    def kind(rows):
        others = [r for r in rows if r != 1]
        return (1 in rows, *np.bincount(label[others], minlength=2).tolist())

    every = [kind(rows) for rows in combinations(range(n), kept)]
    assert complete and sum(w for w, _ in cases) == pytest.approx(1)
    assert {kind(s[1].tolist()): round(w * len(every)) for w, s in cases} == {k: every.count(k) for k in every}
