"""Seeds: an integer starts no stream of numpy's own, and the streams of maps and of releases never meet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ruvdecision as ruv
from ruvdecision.checks import as_generator, as_seed_sequence
from ruvdecision.report import render_report
from ruvdecision.running.replication import replicate_seeds
from ruvdecision.running.run import root_seed

MASKS: dict[str, Any] = {
    "noise": ruv.Noise(sd=1.0),
    "chain": ruv.Noise(sd=1.0) | ruv.masks.Clip(lower=-9.0),
    "moments": ruv.masks.MomentNoise(sd=1.0),
    "synthesis": ruv.masks.Synthesize(),
    "resample": ruv.masks.Resample(),
    "shuffle": ruv.masks.DataShuffle(columns=["a"], given=["b"]),
}


def simulated(seed: Any, n: int = 400) -> pd.DataFrame:
    return pd.DataFrame(np.random.default_rng(seed).standard_normal((n, 2)), columns=["a", "b"])


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**40])
def test_data_that_were_simulated_with_a_seed_can_be_released_with_it(seed: int) -> None:
    """Noise with the data's own seed would be the data: correlation 1, and half of the release gives them back."""
    data = simulated(seed)
    added = MASKS["noise"].release(data, seed) - data
    assert abs(np.corrcoef(added["a"], data["a"])[0, 1]) < 0.2  # 4 standard errors


def first_numbers(rng: np.random.Generator) -> tuple[float, ...]:
    return tuple(rng.random(4).tolist())


def test_the_streams_of_one_seed_never_meet() -> None:
    """Numpy's own, those of measures and beliefs, those of maps, and those that releases draw and spawn from."""
    seed = 1
    streams = [np.random.default_rng(seed), *np.random.default_rng(seed).spawn(3), as_generator(seed)]
    streams += [np.random.default_rng(s) for three in replicate_seeds(root_seed(seed), 3) for s in three]

    class Looking(ruv.masks.Mask):
        def apply(self, frame: Any, rng: np.random.Generator) -> Any:
            streams.extend(stream for child in rng.spawn(3) for stream in (child, *child.spawn(3)))
            streams.append(rng)
            return frame

    Looking().release([1.0], seed)
    found = {first_numbers(stream) for stream in streams}
    assert len(found) == len(streams) == 27


def test_a_seed_sequence_and_a_generator_keep_their_meaning() -> None:
    data, mask = simulated(1), MASKS["noise"]
    expected = data + np.random.default_rng(np.random.SeedSequence(5)).standard_normal(data.shape)
    pd.testing.assert_frame_equal(mask.release(data, np.random.SeedSequence(5)), expected)
    pd.testing.assert_frame_equal(mask.release(data, np.random.default_rng(5)), expected)
    assert not np.allclose(mask.release(data, 5), expected)


@pytest.mark.parametrize("name", MASKS)
def test_an_integer_gives_the_same_release_each_time(name: str) -> None:
    data, mask = simulated(3), MASKS[name]
    pd.testing.assert_frame_equal(mask.release(data, 7), mask.release(data, 7))
    assert not mask.release(data, 7).equals(mask.release(data, 8))


def measured(seed: Any) -> ruv.RUMap:
    return ruv.measure(simulated(0), [MASKS["noise"]], measures=[ruv.measures.NormalKL()], replicates=2, seed=seed)


def test_a_map_without_a_seed_can_be_made_again_from_the_seed_that_it_keeps() -> None:
    first = measured(None)
    again = measured(int(first.attrs["seed"]))
    assert first.columns["KL"] == again.columns["KL"]
    assert "without one" in first.attrs["seed_means"]


def test_the_noise_of_a_release_is_not_that_of_a_map_with_the_same_seed() -> None:
    """Who has the map's seed could draw the noise of the release and take it off."""
    data, noise = simulated(0), []

    class Spying(ruv.measures.NormalKL):
        def compare(self, state: Any, released: Any) -> Any:
            noise.append(np.asarray(released - data))
            return super().compare(state, released)

    ruv.measure(data, [MASKS["noise"]], measures=[Spying()], replicates=3, seed=1)
    given = MASKS["noise"].release(data, 1) - data
    assert len(noise) == 3
    for drawn in noise:
        assert abs(np.corrcoef(np.ravel(given), np.ravel(drawn))[0, 1]) < 0.15


def test_a_report_gives_a_digest_of_the_seed_unless_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seed = 918273645546372
    rumap = measured(seed)
    assert rumap.attrs["seed"] == str(seed)
    for form in ("html", "md"):
        told = render_report(rumap, format=form)
        assert str(seed) not in told
        assert "its digest is blake2b" in told
        assert str(seed) in render_report(rumap, format=form, seed=True)
    assert render_report(rumap) == render_report(rumap)
    monkeypatch.delenv("RUVDECISION_KEY")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    # Without a key a plain hash of a short seed could be found by trying; one of a fresh seed could not.
    assert "its digest is" not in render_report(rumap)
    fresh = measured(None)
    assert "its digest is sha256" in render_report(fresh)
    assert fresh.attrs["seed"] not in render_report(fresh)
    assert rumap.report(tmp_path / "report.md", seed=True).read_text("utf-8").count(str(seed)) == 1
    with pytest.raises(ruv.InputError, match="seed must be True or False"):
        render_report(rumap, seed=3)  # type: ignore[arg-type]


def test_the_seed_that_a_map_says_is_the_one_it_was_given() -> None:
    assert root_seed(3).entropy == 3
    assert as_seed_sequence(3).entropy == 3
