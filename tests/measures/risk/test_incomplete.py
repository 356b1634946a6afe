"""Nearest records across gaps, beside a matrix of all distances by the stated rule."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ruvdecision.measures import AttributeDisclosure, RecordLinkage


def gapped_file(n: int, seed: int, kind: str) -> pd.DataFrame:
    """Numbers and categories with missing values: single records, or few that repeat."""
    rng = np.random.default_rng(seed)
    few = kind == "few"
    x = pd.DataFrame(
        {
            "a": rng.integers(0, 3, n) * 1.5 if few else rng.normal(size=n),
            "job": rng.choice(list("uvwx"), n, p=[0.5, 0.3, 0.1, 0.1]),
            "b": rng.integers(0, 2, n) * 1.0 if few else rng.normal(size=n),
        }
    )
    x = x.mask(rng.random(x.shape) < (0.02 if kind == "holes of one" else 0.25))
    return x.assign(b=x["b"].mask(x.index > 1)) if kind == "nearly empty" else x


def squares(original: pd.DataFrame, asking: pd.DataFrame, asked: pd.DataFrame) -> np.ndarray:
    """Squared distances of all pairs, one column after the other, each as the rule of `RecordLinkage` says it."""
    total = np.zeros((len(asking), len(asked)))
    for label in original:
        own = original[label].dropna().to_numpy()
        if len(set(own)) < 2:
            continue
        if label == "job":
            unit = 1 - sum(np.mean(own == c) ** 2 for c in set(own))

            def square(x, y, unit=unit):
                return 2 * (x != y) / unit
        else:
            unit = own.astype(float).var(ddof=1)

            def square(x, y, unit=unit):
                return (x - y) ** 2 / unit

        for i, x in enumerate(asking[label]):
            for j, y in enumerate(asked[label]):
                if not pd.isna(x):
                    total[i, j] += np.mean([square(x, o) for o in own]) if pd.isna(y) else square(x, y)
    return total


@pytest.mark.parametrize("link", ["released to original", "original to released"])
@pytest.mark.parametrize("kind", ["single", "few", "holes of one", "nearly empty"])
def test_pairs_are_linked_by_the_columns_that_are_known(kind: str, link: str) -> None:
    for seed in range(4):
        original = gapped_file(90, seed, kind)
        moved = np.random.default_rng(seed + 50).normal(size=(90, 2)) * (0 if kind == "few" else 0.4)
        released = original.assign(a=original["a"] + moved[:, 0], b=original["b"] + moved[:, 1])
        released = released.mask(np.random.default_rng(seed + 9).random(released.shape) < 0.1)
        asking, asked = (released, original) if link.startswith("released") else (original, released)
        gap = np.sqrt(squares(original, asking, asked))
        near = gap <= gap.min(axis=1, keepdims=True) + 1e-9
        shares = np.diag(near) / near.sum(axis=1)
        np.testing.assert_allclose(RecordLinkage(link=link).per_record(original, released), shares, atol=1e-12)


@pytest.mark.parametrize("rows", [40, 90, 130])
def test_what_the_nearest_records_say_of_another_column(rows: int) -> None:
    for kind in ("single", "few", "nearly empty"):
        original, released = gapped_file(90, 1, kind), gapped_file(rows, 2, kind)
        codes = [np.random.default_rng(k).choice(list("yz"), len(f)) for k, f in enumerate((original, released))]
        gap = np.sqrt(squares(original, original, released))
        near = gap <= gap.min(axis=1, keepdims=True) + 1e-9
        right = (near * (codes[0][:, None] == codes[1])).sum(axis=1) / near.sum(axis=1)
        found = AttributeDisclosure("ill").per_record(original.assign(ill=codes[0]), released.assign(ill=codes[1]))
        np.testing.assert_allclose(found, right, atol=1e-12)
