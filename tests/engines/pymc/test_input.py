"""Models that cannot be right, and machines that lack something: each gets an error that says what, got and do."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import places
import pytest

from ruvdecision.beliefs.pymc import PyMCBelief
from ruvdecision.engines import pick
from ruvdecision.engines.pymc import nuts
from ruvdecision.engines.pymc.model import compiled_model
from ruvdecision.engines.pymc.sampling import Sampling
from ruvdecision.errors import InputError, RuvError, UnsupportedError
from ruvdecision.evaluate import evaluate, posterior
from ruvdecision.losses import Quadratic
from ruvdecision.masks import Noise, Shuffle, Suppress
from ruvdecision.masks.base import Mask
from ruvdecision.targets import Functional, Identity, Parameter, Record
from ruvdecision.users.user import User

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

ROOT = places.ROOT
DATA = np.array([0.3, 1.2, -0.5, 0.8])
ENGINE = Sampling(draws=20, tune=20, chains=1)


def normal(n):
    import pymc as pm

    with pm.Model() as model:
        mu = pm.Normal("mu")
        sigma = pm.HalfNormal("sigma")
        pm.Deterministic("cv", sigma / mu)
        pm.Normal("x", mu, sigma, shape=n)
    return model


def refused(
    belief: PyMCBelief, target: object = None, mask: Mask | None = None, data: object = DATA, **options: object
) -> RuvError:
    """The error of a map with this belief."""
    user = User(belief, Record(0) if target is None else target, Quadratic())
    with pytest.raises(RuvError) as caught:
        evaluate(
            [mask or Noise(variance=1.0)],
            intruder=user,
            scientist=user,
            data=data,
            **({"engine": ENGINE, "seed": 1} | options),
        )
    error = caught.value
    assert error.do, "an error says what to do"
    return error


# -- the builder -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("builder", ["model", 3, None])
def test_a_builder_must_be_a_function(builder: object) -> None:
    with pytest.raises(InputError, match="builder must be a function of n"):
        PyMCBelief(builder)


@pytest.mark.parametrize("records", [200, "", None])
def test_records_is_a_name(records: object) -> None:
    with pytest.raises(InputError, match="records must be text"):
        PyMCBelief(normal, records=records)


@pytest.mark.parametrize("size", [0, -3, 2.5, "many"])
def test_size_is_a_number_of_records(size: object) -> None:
    with pytest.raises(InputError, match="size"):
        PyMCBelief(normal, size=size)


def test_a_builder_that_gives_back_something_else() -> None:
    error = refused(PyMCBelief(lambda n: {"x": n}))
    assert "must give back a pymc.Model" in error.what
    assert error.got == "dict"
    assert "return model" in error.do
    assert refused(PyMCBelief(lambda n: None)).got == "NoneType"


def test_a_builder_that_raises() -> None:
    def broken(n):
        raise RuntimeError(f"no model for {n}")

    error = refused(PyMCBelief(broken))
    assert "The builder fails for 4 records" in error.what
    assert "RuntimeError: no model for 4" in str(error.got)
    assert isinstance(error.__cause__, RuntimeError)


def test_a_model_without_the_records() -> None:
    error = refused(PyMCBelief(normal, records="income"))
    assert "no variable for the records" in error.what
    assert "mu" in str(error.got)
    assert "x" in str(error.got)
    assert "records=" in error.do


def test_records_that_the_model_has_observed() -> None:
    def observed(n):
        import pymc as pm

        with pm.Model() as model:
            pm.Normal("x", pm.Normal("mu"), 1.0, observed=np.zeros(n))
        return model

    error = refused(PyMCBelief(observed))
    assert "must not be observed" in error.what
    assert "observed=" in error.do


@pytest.mark.parametrize("shape", [3, (2, 4), (4, 1, 1), ()])
def test_records_of_the_wrong_length(shape: object) -> None:
    def wrong(n):
        import pymc as pm

        with pm.Model() as model:
            pm.Normal("x", pm.Normal("mu"), 1.0, shape=shape)
        return model

    error = refused(PyMCBelief(wrong))
    assert "must hold 4 records" in error.what
    assert "shape" in str(error.got)
    assert "shape=n" in error.do


# -- data and targets --------------------------------------------------------------------------------------------


def test_data_with_too_many_columns() -> None:
    error = refused(PyMCBelief(normal), data=np.column_stack([DATA, DATA]))
    assert "1 columns" in error.what
    assert "2 columns" in str(error.got)


def test_data_of_another_size_than_the_belief() -> None:
    error = refused(PyMCBelief(normal, size=7))
    assert "7 records" in error.what
    assert "4 rows" in str(error.got)


def test_infinite_values_in_the_data_are_named_and_not_shown() -> None:
    data = np.array([0.3, np.inf, 123456.75, 1.0])
    error = refused(PyMCBelief(normal), data=data)
    assert "infinite" in str(error).lower()
    assert "123456" not in str(error)


def test_text_in_the_data() -> None:
    error = refused(PyMCBelief(normal), data=pd.DataFrame({"x": ["a", "b", "c", "d"]}))
    assert "number" in str(error).lower() or "numeric" in str(error).lower()


def test_no_data_and_no_size() -> None:
    error = refused(PyMCBelief(normal), data=None)
    assert "how many records" in error.what
    assert "size=" in error.do
    # The names of columns are the model's, which cannot be built yet.
    assert "how many records" in refused(PyMCBelief(normal), Record(0, column="income"), data=None).what


def test_an_unknown_parameter_lists_the_names() -> None:
    error = refused(PyMCBelief(normal), Parameter("tau"))
    assert "no parameter of this name" in error.what
    assert error.got == "tau"
    assert all(name in error.do for name in ("mu", "sigma", "cv"))
    assert "tau" in str(refused(PyMCBelief(normal), Functional(lambda a: a, of=[Parameter("tau")])))


def test_the_records_are_no_parameter() -> None:
    assert refused(PyMCBelief(normal), Parameter("x")).got == "x"


def test_a_row_that_is_not_there() -> None:
    error = refused(PyMCBelief(normal), Record(4))
    assert "4 records" in error.what


def test_identity_is_not_a_target_of_a_model() -> None:
    with pytest.raises(InputError, match="does not have this target"):
        User(PyMCBelief(normal), Identity(0, known=[0]), Quadratic())


def test_sampling_wants_a_pymc_belief() -> None:
    from ruvdecision.beliefs.normal import NormalBelief

    user = User(NormalBelief(4, 1.0, prior_variance=1.0), Record(0), Quadratic())
    with pytest.raises(UnsupportedError, match="PyMCBelief"):
        pick("sampling", user, [Noise(variance=1.0)], None)


def test_a_posterior_needs_a_release() -> None:
    with pytest.raises(InputError, match="needs a release"):
        posterior(User(PyMCBelief(normal, size=4), Record(0), Quadratic()), Noise(variance=1.0), engine=ENGINE)


@pytest.mark.parametrize(
    "options",
    [
        {"draws": 5},
        {"tune": 0},
        {"chains": 0},
        {"draws": 1.5},
        {"sampler": "stan"},
        {"target_mcse": 0},
        {"target_mcse": -1},
        {"max_draws": 0},
        {"keep": ["Noise"]},
    ],
    ids=str,
)
def test_settings_that_cannot_be(options: dict[str, object]) -> None:
    with pytest.raises(InputError) as caught:
        Sampling(**options)
    assert next(iter(options)) in str(caught.value)


# -- the mask ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Secret(Mask):
    """A mask that does not say how its release comes about."""

    def apply(self, frame, rng):
        values, positions = frame.numeric("Secret")
        return frame.replace(np.sort(values, axis=0), positions)


def test_a_mask_whose_likelihood_is_not_known_says_what_can_be_used() -> None:
    error = refused(PyMCBelief(normal), mask=Secret())
    assert isinstance(error, UnsupportedError)
    assert "Secret" in str(error)
    assert "log_likelihood" in error.do or "Noise" in error.do


def test_shuffled_rows_of_records_that_differ() -> None:
    def uneven(n):
        import pymc as pm

        with pm.Model() as model:
            pm.Normal("x", pm.Normal("mu"), np.arange(1.0, n + 1), shape=n)
        return model

    error = refused(PyMCBelief(uneven), mask=Noise(variance=1.0) | Shuffle())
    assert "unknown order" in error.what


# -- models that break, machines that lack -----------------------------------------------------------------------


@pytest.mark.long
def test_a_prior_that_breaks_before_any_data() -> None:
    def broken(n):
        import pymc as pm

        with pm.Model() as model:
            mu = pm.Normal("mu")
            pm.Potential("never", -np.inf + 0 * mu)
            pm.Normal("x", mu, 1.0, shape=n)
        return model

    error = refused(PyMCBelief(broken))
    assert "cannot be sampled" in error.what or "fails on this model" in error.what
    assert not any(f"{v}" in str(error) for v in DATA)


def test_a_flat_prior_cannot_be_drawn_from_but_data_will_do() -> None:
    def flat(n):
        import pymc as pm

        with pm.Model() as model:
            pm.Normal("x", pm.Flat("mu"), 1.0, shape=n)
        return model

    error = refused(PyMCBelief(flat, size=4), data=None)
    assert "flat prior" in error.what.lower()
    assert error.got == "mu"


def test_nutpie_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    nuts.choose_sampler.cache_clear()
    monkeypatch.setattr(nuts.importlib.util, "find_spec", lambda name: None)
    try:
        assert nuts.choose_sampler("auto") == "pymc"
        with pytest.raises(InputError, match="nutpie is not installed"):
            nuts.choose_sampler("nutpie")
    finally:
        nuts.choose_sampler.cache_clear()


NO_COMPILER = """
import warnings
import numpy as np
import ruvdecision as ruv
from ruvdecision.beliefs.pymc import PyMCBelief
from ruvdecision.engines.pymc.sampling import Sampling

def build(n):
    import pymc as pm
    with pm.Model() as model:
        pm.Normal("x", pm.Normal("mu"), 1.0, shape=n)
    return model

belief = PyMCBelief(build)
user = ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic())
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for data in ([0.1, 0.2, 0.3], [0.4, 0.5, 0.1, 0.9]):
        rumap = ruv.evaluate([ruv.Noise(variance=1.0)], intruder=user, scientist=user, data=np.array(data),
                             engine=Sampling(draws=100, tune=100, chains=1, sampler="pymc"), seed=1)
        print("U", float(rumap.intruder_uncertainty[0]))
ours = [w for w in seen if "ruvdecision" in str(w.filename) or "compiler was found" in str(w.message)]
print("told", sum("compiler" in str(w.message) for w in ours))
"""


@pytest.mark.long
def test_without_a_compiler_it_says_so_once_and_goes_on(tmp_path: Path) -> None:
    import os

    env = {
        **os.environ,
        "PYTENSOR_FLAGS": f"cxx=,base_compiledir={tmp_path}",
        "PATH": str(tmp_path),
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-c", NO_COMPILER], capture_output=True, text=True, check=False, env=env, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    values = [float(line.split()[1]) for line in lines if line.startswith("U")]
    assert values == pytest.approx([1 / (1 + 3 / 2), 1 / (1 + 4 / 2)], rel=0.5)
    assert lines[-1] == "told 1"


# -- light imports -----------------------------------------------------------------------------------------------

CLOSED = """
import ruvdecision as ruv
from ruvdecision.beliefs.pymc import PyMCBelief
from ruvdecision.analyses.calibrate import calibrate
belief = ruv.NormalBelief(records=4, variance=2, prior_variance=5)
user = ruv.User(belief, ruv.Record(0), ruv.Quadratic())
ruv.evaluate([ruv.Noise(variance=1.0), ruv.Suppress()], intruder=user, scientist=user)
calibrate(belief, ruv.Noise(variance=1.0), ruv.Record(0), simulations=10, seed=1)
PyMCBelief(lambda n: None, size=3)
import sys
print("loaded:", *[name for name in ("pymc", "arviz", "pytensor", "nutpie", "matplotlib") if name in sys.modules])
"""


@pytest.mark.slow
def test_closed_forms_and_unbuilt_beliefs_import_no_sampler() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CLOSED], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["loaded:"]


def test_a_belief_describes_itself_and_travels() -> None:
    import pickle

    belief = PyMCBelief(normal, size=4)
    assert belief.parameters == ("mu", "sigma", "cv")
    assert repr(belief) == "PyMCBelief(normal, records='x', size=4)"
    assert "mu, sigma unknown" in belief.describe()
    again = pickle.loads(pickle.dumps(belief))
    records, parameters = again.draw_with_parameters(np.random.default_rng(1))
    np.testing.assert_array_equal(records, belief.draw(np.random.default_rng(1)))
    assert records.shape == (4,)
    assert parameters["cv"] == pytest.approx(parameters["sigma"] / parameters["mu"])


def test_suppressing_everything_leaves_the_prior() -> None:
    belief = PyMCBelief(normal, size=4)
    user = User(belief, Parameter("mu"), Quadratic())
    table = evaluate(
        [Suppress()], intruder=user, scientist=user, data=DATA, engine=Sampling(draws=500, tune=300, chains=2), seed=1
    )
    assert abs(table.intruder_uncertainty[0] - 1) <= 4 * table.to_dataframe()["risk_error"][0]


def test_starting_values_of_the_builder_are_kept() -> None:
    """PyMC cannot copy models that have them; ours are copied when the records' transform is taken off."""

    def started(n):
        import pymc as pm

        with pm.Model() as model:
            mu = pm.Normal("mu", initval=0.7)
            pm.LogNormal("x", mu, 1.0, shape=n)
        return model

    compiled = compiled_model(PyMCBelief(started, size=4), 4)
    assert compiled.initial.tolist() == [0.7]
    assert compiled.kind == "elementwise"
