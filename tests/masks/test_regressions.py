"""What a review of the masks found.

Types that were lost, numbers that wrapped round, last digits that hung on the threads.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import places
import pytest

from ruvdecision.beliefs.finite import FiniteBelief
from ruvdecision.errors import InputError, UnsupportedError
from ruvdecision.evaluate import evaluate
from ruvdecision.losses import ZeroOne
from ruvdecision.masks import (
    PRAM,
    Bottomcode,
    DataShuffle,
    Microaggregate,
    MicroaggregateMixed,
    MomentNoise,
    MultiplicativeNoise,
    Noise,
    Recode,
    Resample,
    Round,
    Swap,
    Synthesize,
    Topcode,
)
from ruvdecision.targets import Record
from ruvdecision.users.user import User

REAL = [
    Noise(sd=1.0),
    MomentNoise(share=0.16),
    MultiplicativeNoise(sd=0.1),
    Microaggregate(size=3, by="mdav"),
    Microaggregate(size=3, by="each", centre="median"),
    Resample(times=3),
    Synthesize(moments="exact"),
]


@pytest.mark.parametrize("mask", REAL, ids=str)
def test_a_floating_type_is_kept(mask):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 3))
    df = pd.DataFrame({"a": x[:, 0].astype(np.float32), "b": pd.array(x[:, 1], dtype="Float64"), "c": x[:, 2]})
    out = mask.release(df, 1)
    assert out.dtypes.tolist() == df.dtypes.tolist()
    assert mask.release(x.astype(np.float32), 1).dtype == np.float32
    # The narrow type rounds what double precision gives, and no more.
    wide = mask.release(df.astype(np.float64), 1)
    np.testing.assert_allclose(out["a"], wide["a"], rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(out["b"].to_numpy(dtype=float), wide["b"])


def test_blanks_stay_blanks_of_their_type():
    out = Noise(sd=1.0).release(pd.Series([1, None, 3], dtype="Int64", name="a"), 1)
    assert str(out.dtype) == "Float64"
    assert out.isna().tolist() == [False, True, False]


def test_one_bootstrap_sample_of_whole_numbers_stays_whole():
    x = np.random.default_rng(1).integers(0, 100, 50)
    out = Resample(times=1).release(x, 1)
    assert out.dtype == x.dtype
    assert set(out) <= set(x)


@pytest.mark.parametrize(
    ("mask", "data", "wanted"),
    [
        (Bottomcode(at=300), np.array([3, 250], dtype=np.uint8), [300, 300]),
        (Bottomcode(at=-5), np.array([3, 250], dtype=np.uint8), [3, 250]),
        (Topcode(at=-1), np.array([3, 250], dtype=np.uint8), [-1, -1]),
        (Round(base=200), np.array([120, -128], dtype=np.int8), [200, -200]),
    ],
    ids=str,
)
def test_a_value_beyond_an_integer_type_does_not_wrap_round(mask, data, wanted):
    assert mask.release(data, 1).tolist() == wanted
    assert mask.release(pd.Series(data, dtype=f"{'U' if data.dtype.kind == 'u' else ''}Int8"), 1).tolist() == wanted


@pytest.mark.parametrize(
    "mask",
    [
        Microaggregate(size=2, by="each", columns=["x"], within=["l"]),
        Swap(rate=1, columns=["x"], within=["l"]),
        MicroaggregateMixed(size=2),
        DataShuffle(columns=["x"], given=["l"]),
        Recode(categories={"a": "b"}, columns=["l"]),
        PRAM(stay=0.5, columns=["l"]),
    ],
    ids=str,
)
def test_lists_are_no_categories(mask):
    df = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "l": [[1], [2], [1], [2]]})
    with pytest.raises(InputError, match="hashable"):
        mask.release(df, 1)


def test_ragged_data_and_tables_of_labels_are_refused():
    with pytest.raises(InputError, match="different lengths"):
        Noise(sd=1.0).release([[1, 2], [3]], 1)
    with pytest.raises(InputError, match="one label per record"):
        Microaggregate(groups=[[1, 2], [1, 2]])


# -- whatever the thread count ------------------------------------------------------------------------

PROGRAM = """
import hashlib
import numpy as np, pandas as pd
from ruvdecision.masks import Synthesize
rng = np.random.default_rng(0)
n, names = 20_000, [f"v{i}" for i in range(20)]
df = pd.DataFrame(rng.normal(size=(n, 20)) @ rng.normal(size=(20, 20)), columns=names)
df["g"] = rng.integers(0, 4, n)
df["c"] = np.where(df["v0"] + rng.normal(size=n) > 0, "x", "y")
for mask in (Synthesize(moments="exact", columns=names, given=["g"]), Synthesize(proper=True, columns=names, given=["g"]),
             Synthesize(method="regression", proper=True)):
    out = mask.release(df, 1)
    print(hashlib.sha256(pd.util.hash_pandas_object(out).to_numpy().tobytes()).hexdigest())
"""


@pytest.mark.long
def test_synthesis_does_not_depend_on_the_number_of_threads():
    found = []
    for threads in ("1", "2"):
        env = {**os.environ, **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads)}
        root = places.ROOT
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=env, cwd=root, capture_output=True, text=True, check=True
        )
        found.append(done.stdout.split())
    assert len(found[0]) == 3
    assert found[0] == found[1]


# -- the same laws as before ----------------------------------------------------------------------------


def test_exact_moments_hold_with_columns_given_and_dependent_columns():
    rng = np.random.default_rng(3)
    g = rng.normal(size=(50, 2)) * [1e-3, 1e4]
    x = g @ rng.normal(size=(2, 3)) + rng.normal(size=(50, 3))
    data = np.hstack([g, g[:, :1] - g[:, 1:], x, x[:, :1] + 2 * x[:, 1:2], g[:, :1] * 3])
    out = Synthesize(moments="exact", columns=[3, 4, 5, 6, 7], given=[0, 1, 2]).release(data, 1)
    sd = data.std(axis=0, ddof=1)
    np.testing.assert_allclose(np.cov(out.T) / np.outer(sd, sd), np.corrcoef(data.T), atol=1e-10)
    np.testing.assert_allclose(out.mean(axis=0), data.mean(axis=0), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(
        out[:, 7], data[:, 7], rtol=1e-9, atol=1e-9
    )  # a function of what is given has no freedom
    assert np.abs(out[:, 3] - data[:, 3]).min() > 1e-6


@pytest.mark.slow
@pytest.mark.campaign(2)
@pytest.mark.parametrize("proper", [False, True])
def test_regression_draws_have_the_law_of_least_squares(proper):
    rng = np.random.default_rng(4)
    n = 12
    x = rng.normal(size=(n, 2))
    df = pd.DataFrame(
        {"a": x[:, 0], "b": x[:, 1], "twin": x[:, 0] - x[:, 1], "y": x @ [1.0, -2.0] + rng.normal(size=n)}
    )
    mask = Synthesize(method="regression", columns=["y"], proper=proper)
    draws = np.array([mask.release(df, seed)["y"] for seed in range(2000)])
    design = np.column_stack([np.ones(n), x])
    beta, squares = np.linalg.lstsq(design, df["y"], rcond=None)[:2]
    df_left = n - 3
    hat = design @ np.linalg.inv(design.T @ design) @ design.T
    law = squares[0] / df_left * np.eye(n)
    if proper:  # the variance's posterior mean, and the doubt about the coefficients on top
        law = squares[0] / (df_left - 2) * (np.eye(n) + hat)
    assert np.all(np.abs(draws.mean(axis=0) - design @ beta) < 4.5 * np.sqrt(np.diag(law) / 2000))
    spread = np.cov(draws.T)
    # A t law with 9 degrees of freedom has kurtosis 4.2: variances of 2000 draws are known to about 4 per cent.
    np.testing.assert_allclose(np.diag(spread), np.diag(law), rtol=0.17)
    np.testing.assert_allclose(np.trace(spread), np.trace(law), rtol=0.08)


# -- channels -------------------------------------------------------------------------------------------

P = np.array([0.5, 0.3, 0.2])
STAY = np.full((3, 3), 0.1) + 0.7 * np.eye(3)
CUT, ROUNDED = np.array([[1, 0], [0, 1], [0, 1.0]]), np.array([[1, 0], [1, 0], [0, 1.0]])


@pytest.mark.parametrize(
    ("mask", "matrix"),
    [
        (PRAM(stay=0.8), STAY),
        (Topcode(at=1), CUT),
        (Round(base=2), ROUNDED),
        (Recode(bins=[0, 1, 3]), CUT),
        (Recode(categories={0: "a", 1: "a", 2: "b"}), ROUNDED),
        (PRAM(stay=0.8) | Recode(bins=[0, 1, 3]), STAY @ CUT),
    ],
    ids=str,
)
def test_enumeration_inverts_masks_of_single_records(mask, matrix):
    user = User(FiniteBelief(values=[0, 1, 2], probabilities=P), Record(0), ZeroOne())
    found = evaluate([mask], intruder=user, scientist=user).to_dataframe()["intruder_uncertainty"].iloc[0]
    assert found == pytest.approx(1 - (P[:, None] * matrix).max(axis=0).sum(), abs=1e-12)


@pytest.mark.parametrize(
    "mask",
    [
        PRAM(stay=0.8, invariant=True),
        Topcode(quantile=0.5),
    ],
    ids=str,
)
def test_enumeration_refuses_masks_of_whole_files(mask):
    user = User(FiniteBelief(values=[0, 1, 2], probabilities=P), Record(0), ZeroOne())
    with pytest.raises(UnsupportedError):
        evaluate([mask], intruder=user, scientist=user)
