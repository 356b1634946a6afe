"""Formulas: columns, operators and named transforms; whatever else Python would run is refused by name."""

from __future__ import annotations

import contextlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from edges import tried
from hypothesis import given, settings, strategies as st

from ruvdecision.cli import main
from ruvdecision.cli.measure_names import spell_measures
from ruvdecision.errors import InputError
from ruvdecision.measures import IntervalOverlap, Linear

RNG = np.random.default_rng(1)
DATA = pd.DataFrame({"y": RNG.normal(size=60), "a": RNG.uniform(1, 2, 60), "b": RNG.normal(size=60)})
DATA["job"] = np.resize(["smith", "farrier", "cooper"], 60)
DATA["my col"] = RNG.uniform(1, 2, 60)

ATTACKS = [
    "y ~ a + I(b + np.savetxt.__wrapped__.__globals__['os'].system('touch ran'))",
    "y ~ I(open('ran', 'w').write('x'))",
    "y ~ {open('ran', 'w')}",
    "y ~ Q(open('ran', 'w').name)",  # formulaic evaluates this while it looks for variables
    "y ~ C(a, levels=[open('ran', 'w')])",
    "{open('ran', 'w')} ~ a",
    "y ~ a + __import__('os').system('touch ran')",
    "y ~ (lambda: open('ran', 'w'))()",
    "y ~ poly(a, degree=open('ran', 'w').fileno())",
    "y ~ a.to_csv('ran')",
    "y ~ np.save('ran', a)",
    "y ~ np.log(a, out=b)",
    "y ~ np.log(a, b)",
    "y ~ I([open('ran', 'w') for i in [1]][0])",
    'y ~ I(f\'{open("ran", "w")}\')',
    "y ~ I(a if open('ran', 'w') else a)",
    "y ~ I((c := open('ran', 'w')))",
    "y ~ log(`a` + open('ran', 'w'))",
    "y ~ log(a + '`' + open('ran', 'w').name + '`')",
    "y ~ scale(a, **{'center': open('ran', 'w')})",
    "y ~ scale(a, _state=open('ran', 'w'))",
    "y ~ a[open('ran', 'w')]",
    "y ~ hashed(a, levels=9)",
    "y ~ . + open('ran', 'w')",
    "y ~ contr.__class__(a)",
    "y ~ I(9 ** 9 ** 9 ** 9)",
    "y ~ I('a' * 10 ** 10)",
    "y ~ I([0] * 10000000000)",
    "y ~ poly(a, 1000000)",
    "y ~ bs(a, df=10000000)",
    "y ~ bs(a, df=99*99*99*99)",
    "y ~ poly(a, 99*99*99)",
    "y ~ poly(a, np.exp(20))",
    "y ~ bs(a, knots=b)",
    "y ~ poly(a, 90):poly(b, 90):poly(`my col`, 90)",
    "y ~ (a + b + job) ** 40",
    "y ~ (. + 1) ^ 99999999999999999999",
    "y ~ " + " * ".join(["a", "b"] * 20),
    "y ~ " + " * ".join(["a"] * 1100),
    "y ~ " + "log(" * 3000 + "a" + ")" * 3000,
]


@pytest.mark.parametrize("text", ATTACKS)
@pytest.mark.parametrize("way", ["python", "command line"])
def test_a_formula_runs_no_code(
    text: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    before = DATA.copy()
    if way == "python":
        with pytest.raises(InputError):
            Linear(text).fit(DATA)
    else:
        for name in ("original.csv", "released.csv"):
            DATA.to_csv(name, index=False)
        assert main(["measure", "original.csv", "released.csv", "--model", text, "--measures", "IO"]) == 2
        assert "Traceback" not in capfd.readouterr().err
    assert not (tmp_path / "ran").exists()
    pd.testing.assert_frame_equal(DATA, before)


@pytest.mark.parametrize("text", ["y ~ id:job:a + C(b):id", "y ~ id * name", "y ~ C(id):C(b)", "y ~ poly(a, 40):id"])
def test_products_of_many_categories_are_refused_before_they_are_made(text: str) -> None:
    """400 names by 400 names are 160,000 columns, of a file of any length the square of it."""
    rng = np.random.default_rng(2)
    file = pd.DataFrame(rng.uniform(1, 2, size=(400, 3)), columns=["y", "a", "b"])
    file = file.assign(id=[f"i{i}" for i in range(400)], name=[f"n{i}" for i in range(400)])
    file["job"] = np.resize(["smith", "farrier", "cooper"], 400)
    with pytest.raises(InputError, match=r"too many products of columns.*for 400 records"):
        Linear(text).fit(file)


@pytest.mark.parametrize("text", ["y ~ poly(a, 3):poly(b, 3):job", "y ~ C(k):C(m) + a", "y ~ bs(a, df=5):C(k)"])
def test_products_of_few_categories_are_made(text: str) -> None:
    rng = np.random.default_rng(3)
    file = pd.DataFrame(rng.uniform(1, 2, size=(400, 3)), columns=["y", "a", "b"])
    file = file.assign(k=rng.integers(0, 4, 400), m=rng.integers(0, 3, 400), job=rng.choice(["smith", "cooper"], 400))
    assert np.isfinite(Linear(text).fit(file).se).all()


def test_what_is_refused_is_named() -> None:
    with pytest.raises(InputError, match=r"np\.savetxt") as caught:
        Linear("y ~ np.savetxt('x', a)").fit(DATA)
    assert "allow_code=True" in str(caught.value)
    assert "poly" in str(caught.value)


@pytest.mark.parametrize("name", ["log", "I", "np", "contr"])
def test_a_column_with_the_name_of_a_function_is_named(name: str) -> None:
    text = {"log": "y ~ log(a)", "I": "y ~ I(a ** 2)", "np": "y ~ np.exp(a)", "contr": "y ~ C(job, contr.sum) + I(a)"}
    with pytest.raises(InputError, match=rf"name of a function.*got {name}\. Rename"):
        Linear(text[name]).fit(DATA.assign(**{name: DATA.b}))
    assert np.isfinite(Linear(f"y ~ {name} + C(job)").fit(DATA.assign(**{name: DATA.b})).estimate).all()


def test_what_cannot_be_read_is_said_on_one_line() -> None:
    with pytest.raises(InputError, match="FormulaSyntaxError: Unknown operator") as caught:
        Linear("y ~ a $ b").fit(DATA)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("y ~ log(a)", np.log(DATA.a)),
        ("y ~ np.log(a)", np.log(DATA.a)),
        ("y ~ sqrt(a)", np.sqrt(DATA.a)),
        ("y ~ exp(-b)", np.exp(-DATA.b)),
        ("y ~ I(a ** 2 / 3)", DATA.a**2 / 3),
        ("y ~ {a ** 2}", DATA.a**2),
        ("y ~ scale(a, center=False)", DATA.a / DATA.a.pow(2).sum() ** 0.5 * 59**0.5),
        ("y ~ log(`my col`)", np.log(DATA["my col"])),
        ("y ~ abs(b)", DATA.b.abs()),
        ("y ~ I(a > 1.5)", (DATA.a > 1.5).astype(float)),
        ("y ~ center(a)", DATA.a - DATA.a.mean()),
        ("y ~ log1p(a + 2 * b * b)", np.log1p(DATA.a + 2 * DATA.b**2)),
    ],
)
def test_transforms_are_what_their_names_say(text: str, column: Any) -> None:
    expected = np.polyfit(column, DATA.y, 1)[::-1]
    np.testing.assert_allclose(Linear(text).fit(DATA).estimate, expected, rtol=1e-9)


@pytest.mark.parametrize(
    "text",
    [
        "y ~ C(job)",
        "y ~ C(job, contr.sum)",
        "y ~ C(job, contr.treatment(base='smith'))",
        "y ~ C(job, Treatment('smith'))",
    ]
    + [
        "y ~ poly(a, 2)",
        "y ~ bs(a, df=4)",
        "y ~ (a + b) ** 2",
        "y ~ a * job",
        "log(a) ~ b + job",
        "y ~ Q('my col')",
        "y ~ .",
        "y ~ . - job",
    ],
)
def test_codings_and_splines_still_work(text: str) -> None:
    assert np.isfinite(Linear(text).fit(DATA).estimate).all()


def test_code_needs_to_be_allowed() -> None:
    text, expected = "y ~ np.hypot(a, b)", np.polyfit(np.hypot(DATA.a, DATA.b), DATA.y, 1)[::-1]
    for model in (Linear(text), IntervalOverlap(text)):
        with pytest.raises(InputError, match=r"np\.hypot"):
            model.fit(DATA) if isinstance(model, Linear) else model(DATA, DATA)
    np.testing.assert_allclose(Linear(text, allow_code=True).fit(DATA).estimate, expected)
    assert IntervalOverlap(text, allow_code=True)(DATA, DATA) == pytest.approx(0.95)
    assert IntervalOverlap({"m": text}, allow_code=True)(DATA, DATA) == pytest.approx(0.95)
    with pytest.raises(InputError, match="allow_code"):
        Linear(text, allow_code="yes")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="never code"):
        spell_measures([f"IO(model='{text}', allow_code=True)"])


def test_categories_are_not_warned_of(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Formulaic lists categories that a formula leaves out; they are records."""
    text = "y ~ C(job, levels=['smith'])"
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with pytest.raises(InputError, match="names levels") as caught:
            Linear(text).fit(DATA)
    assert not heard
    assert "farrier" not in str(caught.value)
    DATA.to_csv(tmp_path / "x.csv", index=False)
    assert main(["measure", str(tmp_path / "x.csv"), str(tmp_path / "x.csv"), "--model", text]) == 2
    assert "farrier" not in capfd.readouterr().err
    Linear("y ~ C(job, levels=['smith', 'farrier', 'cooper'])").fit(DATA)


WORDS = [
    "a",
    "b",
    "y",
    "job",
    "`my col`",
    "1",
    "0",
    "2",
    "'t'",
    "log",
    "C",
    "I",
    "Q",
    "np",
    "open",
    "__import__",
    "poly",
]
SIGNS = [
    "+",
    "-",
    "*",
    "**",
    "^",
    ":",
    "/",
    "%in%",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "`",
    ".",
    ",",
    "=",
    "==",
    "<",
    " ",
    "lambda:",
]


def fitted_or_refused(words: list[str]) -> None:
    tried("formulas")
    with warnings.catch_warnings(), contextlib.suppress(InputError):
        warnings.simplefilter("ignore")
        Linear(f"y ~ {''.join(words)}").fit(DATA)


SPELLED = st.lists(st.sampled_from([*WORDS, *SIGNS]), min_size=1, max_size=14)


@given(SPELLED)
def test_any_formula_is_fitted_or_refused(words: list[str]) -> None:
    fitted_or_refused(words)


@pytest.mark.long
@settings(max_examples=4000)
@given(SPELLED)
def test_4000_formulas_are_fitted_or_refused(words: list[str]) -> None:
    fitted_or_refused(words)
