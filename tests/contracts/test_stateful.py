"""Chains of masks, users and maps in any order: what must hold does, and every refusal says what, got and do."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from edges import attempt, frame, tried
from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

import ruvdecision as ruv
from ruvdecision.errors import RuvError
from ruvdecision.maps.rumap import RUMap
from ruvdecision.maps.storage import as_bytes, decode, encode, from_bytes

RECORDS = 6
#: Rules wait for what others make, which hypothesis counts as examples thrown away; chains are too long to be shrunk in a suite.
HOUSE = {"suppress_health_check": list(HealthCheck), "phases": [Phase.explicit, Phase.generate]}
#: What rounding may add to a U of a closed form.
ROUNDING = 1e-9

few = st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0])
seeds = st.integers(0, 5)
#: Masks with a closed form under a normal belief.
closed = st.one_of(
    st.builds(lambda v: ruv.Noise(variance=v), few),
    st.builds(lambda v: ruv.Noise(sd=v, common=True), few),
    st.builds(lambda k: ruv.Microaggregate(groups=k), st.integers(1, 3)),
    st.builds(lambda m: ruv.Subsample(size=m), st.integers(1, 4)),
    st.sampled_from([ruv.Release(), ruv.Suppress(), ruv.Shuffle()]),
)
#: Masks that take numbers, whatever their law.
numeric = closed | st.one_of(
    st.builds(lambda v: ruv.Noise(sd=v, kind="laplace"), few),
    st.builds(lambda v: ruv.Noise(share=v / 8), few),
    st.builds(lambda v: ruv.Noise(variance=v, columns=["a"]), few),
    st.builds(lambda v: ruv.MultiplicativeNoise(sd=v / 10), few),
    st.builds(
        lambda k, by: ruv.Microaggregate(size=k, by=by),
        st.integers(2, 4),
        st.sampled_from(["each", "pc1", "zscore", "mdav"]),
    ),
    st.builds(lambda v: ruv.RankSwap(within=v / 4), few),
    st.builds(lambda v: ruv.Swap(rate=v / 4, columns=["b"]), few),
    st.builds(lambda v: ruv.Topcode(at=v), few),
    st.builds(lambda v: ruv.Bottomcode(at=v), few),
    st.builds(lambda v: ruv.Round(base=v), few),
    st.builds(lambda v: ruv.Recode(bins=[-5.0, v, 9.0], columns=["a"]), few),
    st.builds(lambda v: ruv.PRAM(stay=v / 4, columns=["a"]), few),
    st.builds(lambda c: ruv.Suppress(columns=[c]), st.sampled_from(["a", "b", "none"])),
    st.builds(lambda i: ruv.Suppress(rows=[i]), st.integers(0, 9)),
    st.builds(lambda m: ruv.Resample(times=m), st.integers(1, 3)),
    st.sampled_from(
        [
            ruv.Synthesize(),
            ruv.DataShuffle(columns=["a"]),
            ruv.masks.MicroaggregateMixed(size=2),
            ruv.LocalSuppress(k=2, keys=["a"]),
        ]
    ),
    st.sampled_from([ruv.masks.Combine([[1.0]], [[0.5]]), ruv.Stochastic([[0.9, 0.1], [0.2, 0.8]])]),
)
targets = st.sampled_from([ruv.Record(0), ruv.Record(2), ruv.Parameter("mu"), ruv.NewRecord(), ruv.Average()])
losses = st.sampled_from(
    [ruv.Quadratic(), ruv.Absolute(), ruv.Pinball(0.7), ruv.LogScore(), ruv.ZeroOne(tolerance=0.5)]
)


def belief(prior_variance: float) -> ruv.NormalBelief:
    return ruv.NormalBelief(records=RECORDS, variance=2, prior_mean=0, prior_variance=prior_variance)


def same_map(one: RUMap, other: RUMap) -> None:
    pd.testing.assert_frame_equal(one.to_dataframe(), other.to_dataframe(), check_exact=True)
    assert (one.releases, one.masks, one.engine, one.notes) == (other.releases, other.masks, other.engine, other.notes)
    np.testing.assert_array_equal(np.stack(one.before), np.stack(other.before))


def uncertainties(masks: list[Any], user: Any) -> Any:
    """U of a user under masks, or the refusal."""

    def compute(masks: list[Any], user: Any) -> Any:
        return ruv.evaluate(
            masks, intruder=user, scientist=user, risk=lambda u: -u, utility=lambda u: -u, seed=1
        ).intruder.value

    return attempt(compute, masks, user, kind="stateful")


def is_plain(user: Any) -> bool:
    return all(map(is_plain, user.members)) if isinstance(user, ruv.Panel) else user.is_rightly_informed


class Chains(RuleBasedStateMachine):
    """Masks are made and chained, users made and put together, maps evaluated, joined, kept and chosen from."""

    masks = Bundle("masks")
    any_masks = Bundle("any_masks")
    users = Bundle("users")
    maps = Bundle("maps")

    @initialize(target=users)
    def begin(self) -> Any:
        self.data = frame(rows=RECORDS + 2, columns=2).set_axis(list("qwertyui"), axis=0)
        self.before = self.data.copy()
        self.folder = tempfile.TemporaryDirectory()
        self.kept: dict[Path, RUMap] = {}
        plain = [ruv.User(belief(5.0), t, ruv.Quadratic()) for t in (ruv.Record(0), ruv.Parameter("mu"))]
        return multiple(*plain)

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()

    # -- masks ---------------------------------------------------------------------------------------

    @rule(target=masks, mask=closed)
    def make_mask(self, mask: Any) -> Any:
        return mask

    @rule(target=any_masks, mask=numeric)
    def make_any_mask(self, mask: Any) -> Any:
        return mask

    @rule(target=masks, one=masks, other=closed)
    def chain_masks(self, one: Any, other: Any) -> Any:
        return one | other if len(one.parts) < 4 else other

    @rule(target=any_masks, one=any_masks, other=numeric)
    def chain_any_masks(self, one: Any, other: Any) -> Any:
        return one | other if len(one.parts) < 4 else other

    @rule(mask=any_masks | masks)
    def is_itself_again(self, mask: Any) -> None:
        """As text, as JSON, and in another process."""
        tried("stateful")
        copies = [eval(repr(mask), vars(ruv)), decode(encode(mask)), pickle.loads(pickle.dumps(mask))]
        for copy in copies:
            assert str(copy) == str(mask)
            assert copy.parameters() == mask.parameters()
            assert copy.family == mask.family and copy.numbers == mask.numbers

    @rule(one=any_masks | masks, two=any_masks | masks, three=any_masks | masks, seed=seeds)
    def chains_are_associative(self, one: Any, two: Any, three: Any, seed: int) -> None:
        left, right = (one | two) | three, one | (two | three)
        assert str(left) == str(right) and left.parts == right.parts
        first, second = (
            attempt(lambda data, m=m: m.release(data, seed), self.data, kind="stateful") for m in (left, right)
        )
        self.agree(first, second)

    @rule(mask=any_masks | masks, seed=seeds, array=st.booleans())
    def release(self, mask: Any, seed: int, array: bool) -> None:
        data = self.data.to_numpy() if array else self.data
        first, again = (attempt(lambda data: mask.release(data, seed), data, kind="stateful") for _ in range(2))
        self.agree(first, again)
        if isinstance(first, RuvError):
            return
        assert type(first) is type(data)
        if array:
            assert first.shape[1] == data.shape[1]
            return
        assert list(first.columns) == list(data.columns)
        if any(isinstance(step, (ruv.Subsample, ruv.Resample)) for step in mask.parts):
            assert set(first.index) <= set(data.index) or any(isinstance(step, ruv.Resample) for step in mask.parts)
        else:
            assert list(first.index) == list(data.index)

    def agree(self, first: Any, second: Any) -> None:
        """The same release, or the same refusal."""
        if isinstance(first, RuvError) or isinstance(second, RuvError):
            assert str(first) == str(second)
        elif isinstance(first, pd.DataFrame):
            pd.testing.assert_frame_equal(first, second, check_exact=True)
        else:
            np.testing.assert_array_equal(first, second)

    # -- users ---------------------------------------------------------------------------------------

    @rule(target=users, prior=few, target_=targets, loss=losses)
    def make_user(self, prior: float, target_: Any, loss: Any) -> Any:
        return ruv.User(belief(prior), target_, loss)

    @rule(target=users, prior=few, true=few, target_=targets)
    def make_wrong_user(self, prior: float, true: float, target_: Any) -> Any:
        return ruv.User(belief(prior), target_, ruv.Quadratic(), truth=belief(true))

    @rule(target=users, target_=targets, variances=st.lists(few, min_size=1, max_size=3, unique=True))
    def make_untold_user(self, target_: Any, variances: list[float]) -> Any:
        prior = ruv.MaskPrior(variances=variances)
        return ruv.User(belief(5.0), target_, ruv.Quadratic(), knows_mask=False, mask_prior=prior)

    @rule(target=users, one=users, two=users, combine=st.sampled_from([None, "worst", "mean"]))
    def make_panel(self, one: Any, two: Any, combine: str | None) -> Any:
        found = attempt(lambda: ruv.Panel([one, two], combine=combine), kind="stateful")
        return multiple() if isinstance(found, RuvError) or len(str(found)) > 800 else found

    # -- uncertainty ---------------------------------------------------------------------------------

    @rule(mask=masks, after=closed, user=users)
    def what_is_done_to_a_release_tells_nothing_new(self, mask: Any, after: Any, user: Any) -> None:
        """U is least before any mask, never falls along a chain, and is never above that of no release."""
        chain = [ruv.Release(), mask, mask | after, ruv.Suppress()]
        found = [uncertainties([m], user) for m in chain]
        if not is_plain(user) or any(isinstance(u, RuvError) for u in found):
            return
        u = np.concatenate(found)
        assert np.all(np.isfinite(u[1:])) or np.all(u[1:] > -np.inf)
        assert np.all(np.diff(u) >= -ROUNDING * np.maximum(1, np.abs(u[1:]))), dict(
            zip(map(str, chain), u.tolist(), strict=True)
        )

    @rule(one=masks, two=masks, three=masks, user=users)
    def uncertainty_is_associative(self, one: Any, two: Any, three: Any, user: Any) -> None:
        left, right = uncertainties([(one | two) | three], user), uncertainties([one | (two | three)], user)
        if isinstance(left, RuvError) or isinstance(right, RuvError):
            assert str(left) == str(right)
        else:
            np.testing.assert_array_equal(left, right)

    # -- maps ----------------------------------------------------------------------------------------

    @rule(target=maps, chosen=st.lists(masks, min_size=1, max_size=3), intruder=users, scientist=users)
    def evaluate(self, chosen: list[Any], intruder: Any, scientist: Any) -> Any:
        found = attempt(lambda: ruv.evaluate(chosen, intruder=intruder, scientist=scientist, seed=1), kind="stateful")
        if isinstance(found, RuvError):
            return multiple()
        assert found.releases == tuple(map(str, chosen)) and found.masks == tuple(chosen)
        again = ruv.evaluate(chosen[::-1], intruder=intruder, scientist=scientist, seed=1)
        # Adding or moving a candidate never changes another's score.
        np.testing.assert_allclose(again.intruder.value[::-1], found.intruder.value, rtol=1e-12)
        return found

    @rule(target=maps, rumap=maps, mask=masks)
    def extend(self, rumap: RUMap, mask: Any) -> Any:
        intruder, scientist = rumap.users or (None, None)
        more = attempt(lambda: ruv.evaluate([mask], intruder=intruder, scientist=scientist, seed=1), kind="stateful")
        if isinstance(more, RuvError):
            return multiple()
        joined = attempt(lambda: rumap + more, kind="stateful")
        if isinstance(joined, RuvError):
            assert str(mask) in rumap.releases, joined
            return multiple()
        assert joined.size == rumap.size + 1 and joined[: rumap.size].releases == rumap.releases
        np.testing.assert_array_equal(joined.risk[: rumap.size], rumap.risk)
        return joined

    @rule(rumap=maps, share=st.floats(0, 1.5))
    def choose(self, rumap: RUMap, share: float) -> None:
        highest = attempt(lambda: float(np.max(rumap.risk[np.isfinite(rumap.risk)], initial=1.0)), kind="stateful")
        if isinstance(highest, RuvError):
            return
        limit = share * highest
        found = attempt(lambda: rumap.choose(max_risk=limit), kind="stateful")
        allowed = rumap.risk <= limit * (1 + 1e-9)
        if isinstance(found, RuvError):
            assert limit <= 0 or not allowed.any()
            return
        assert found.risk <= limit * (1 + 1e-9) and found.utility >= rumap.utility[allowed].max() * (1 - 1e-9)
        assert any(found.mask == mask for mask in rumap.masks)
        front = rumap.frontier()
        assert set(front.releases) <= set(rumap.releases)

    @rule(rumap=maps)
    def travels(self, rumap: RUMap) -> None:
        """Through a file and through a pickle."""
        content = attempt(as_bytes, rumap, kind="stateful")
        if isinstance(content, RuvError):
            return
        same_map(from_bytes(content), rumap)
        assert as_bytes(from_bytes(content)) == content
        same_map(pickle.loads(pickle.dumps(rumap)), rumap)

    @rule(rumap=maps, name=st.sampled_from(["a.nc", "b.nc"]), overwrite=st.booleans())
    def keep(self, rumap: RUMap, name: str, overwrite: bool) -> None:
        path = Path(self.folder.name) / name
        found = attempt(lambda: rumap.save(path, overwrite=overwrite), kind="stateful")
        if isinstance(found, RuvError):
            assert (path in self.kept and not overwrite) or "risk" in str(found) or "utility" in str(found)
        else:
            assert path not in self.kept or overwrite
            self.kept[path] = rumap

    @rule(rumap=consumes(maps), other=maps)
    def join_by_name(self, rumap: RUMap, other: RUMap) -> None:
        joined = attempt(lambda: RUMap.concat([rumap, other], names=["one", "two"]), kind="stateful")
        if not isinstance(joined, RuvError):
            assert joined.releases == tuple(
                f"{n}: {r}" for n, m in (("one", rumap), ("two", other)) for r in m.releases
            )

    # -- always --------------------------------------------------------------------------------------

    @invariant()
    def data_are_untouched(self) -> None:
        if hasattr(self, "data"):
            pd.testing.assert_frame_equal(self.data, self.before, check_exact=True)

    @invariant()
    def files_hold_what_was_saved_last(self) -> None:
        if hasattr(self, "kept"):
            assert sorted(Path(self.folder.name).iterdir()) == sorted(self.kept)
            for path, rumap in self.kept.items():
                same_map(RUMap.load(path), rumap)


@pytest.mark.slow
def test_chains_of_masks_and_users() -> None:
    run_state_machine_as_test(Chains, settings=settings(max_examples=8, stateful_step_count=16, **HOUSE))


@pytest.mark.long
def test_many_chains_of_masks_and_users() -> None:
    run_state_machine_as_test(Chains, settings=settings(max_examples=50, stateful_step_count=30, **HOUSE))
