"""The benchmarks' machinery on tiny sizes: table, page, loads, the fit of an exponent. No time is asserted."""

from __future__ import annotations

import dataclasses
import json
import sys

import numpy as np
import pytest

from benchmarks import __main__ as table, alone, bench_peers, cases, elsewhere, growth, load, page
from benchmarks.rows import Absent, peer


@pytest.fixture(autouse=True)
def _store(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "STORE", tmp_path / "kept")


# -- exponents -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [0.0, 1.0, 1.5, 2.0])
def test_an_exponent_is_found(power):
    sizes = np.array([1e3, 3e3, 1e4, 1e5])
    assert growth.exponent(sizes, 7e-6 * sizes**power) == pytest.approx(power)


def test_n_log_n_is_below_its_promise_and_n_squared_is_not():
    sizes = np.array([3e4, 1e5, 3e5, 1e6])
    assert 1 < growth.exponent(sizes, sizes * np.log(sizes)) < cases.LOG
    assert growth.exponent(sizes, sizes**2) > cases.LOG + growth.ROOM


def test_a_fixed_cost_is_left_behind():
    sizes = np.array([10, 1e4, 1e5, 1e6])
    # The first size is all fixed cost; only the last three count.
    assert growth.exponent(sizes, np.maximum(1.0, 1e-4 * sizes)) == pytest.approx(1.0)


@pytest.mark.parametrize(("sizes", "values"), [([1], [1]), ([1, 2], [1]), ([1, 2], [0, 1]), ([3, 3], [1, 2])])
def test_no_exponent_without_two_sizes(sizes, values):
    with np.errstate(divide="ignore"), pytest.raises(ValueError, match="an exponent needs"):
        growth.exponent(sizes, values)


def test_verdict_of_a_curve():
    sizes = [1_000, 10_000, 100_000]

    def curve(power, memory, promised=1.0, **more):
        return growth.Curve(
            "c", "n", "n", promised, 1.0, sizes, [s**power for s in sizes], [1e4 * s**memory for s in sizes], **more
        )

    assert curve(1.0, 1.0).verdict == "ok"
    assert curve(2.0, 1.0).verdict == "MISS"
    assert curve(1.0, 2.0).verdict == "MISS"
    assert curve(2.0, 1.0, promised=2.0).verdict == "ok"
    quick = growth.Curve("c", "n", "n", 1.0, 1.0, sizes, [0.0] * (len(sizes) - 1) + [1.0], [1e4] * len(sizes))
    assert quick.slope is None and quick.verdict == "too short to tell"
    assert curve(1.0, 0.2).memory_slope is None  # 100 kB is not told from the allocator's own
    late = dataclasses.replace(curve(1.0, 1.0), bytes=[1.0, 2e7, 2e8])
    assert late.memory_slope == pytest.approx(1.0)  # nor is the first byte; what can be told is linear
    assert dataclasses.replace(late, bytes=[1.0, 2.0, 2e8]).memory_slope is None
    assert curve(1.0, 1.0, failed="killed").verdict == "failed"


@pytest.mark.slow
def test_the_picture_of_growth(tmp_path):
    sizes = [1_000, 10_000, 100_000]
    curves = [
        growth.Curve("c", axis, "n", 1.0, 1.0, sizes, [1e-3, 1e-2, 1e-1], [1e5, 1e6, 1e7]) for axis in growth.AXES
    ]
    growth.draw(curves, tmp_path / "growth.png")
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")


# -- cases -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["evaluate, closed form", "to_dataframe", "frontier of four columns", "Noise", "NormalKL", "KAnonymity"]
)
def test_a_case_runs_here(name):
    found = alone.run_here(name, (200, 10, 30))
    assert found["size"] == [200, 10, 30] and found["seconds"] > 0 and found["peak"] > 0


def test_every_curve_names_a_case():
    assert set(load.GROWTH) <= set(cases.CASES)
    assert {axis for axes in load.GROWTH.values() for axis in axes} == set(growth.AXES)


@pytest.mark.long
def test_every_case_can_be_made():
    for name, case in cases.CASES.items():
        case.make(500, 10, 20)()
        assert case.order, name


@pytest.mark.long
def test_a_case_in_its_own_process():
    first, second, third = alone.alone("NormalKL", [(100, 5, 1), (200, 5, 1), (-1, 5, 1)], limit=120)
    assert first["size"] == [100, 5, 1] and second["seconds"] > 0 and second["peak"] >= second["before"] / 2
    assert "failed" in third  # and the others are kept


# -- table and page --------------------------------------------------------------------------------------


def test_verdicts():
    assert table.verdict(2.0, ">= 1") == "ok" and table.verdict(0.5, ">= 1") == "MISS" and table.verdict(3.0, "") == ""
    with pytest.raises(ValueError, match="wanted must read like"):
        table.verdict(1.0, "at least 2")


def test_the_table_and_its_page(tmp_path, monkeypatch, capsys):
    class Fake:
        """A fake | benchmark.

        More.
        """

        @staticmethod
        def run(quick=False):
            yield "theirs / ours", 0.1, 0.2 if quick else 0.4, 2.0, ">= 1"
            yield "a | lost race", 2.0, 1.0, 0.5, ">= 1"
            yield Absent("some peer", "not installed here")
            raise RuntimeError("broken half way")

    monkeypatch.setattr(table, "find", lambda words: ["bench_fake"])
    monkeypatch.setattr(table.importlib, "import_module", lambda name: Fake)
    out = tmp_path / "RESULTS.md"
    assert table.main(["--quick", "--out", str(out), "--note", "A note."]) == 1
    printed = capsys.readouterr().out
    assert "2 ratios, 1 not as wanted, 1 absent; failed: bench_fake" in printed
    assert "absent: not installed here" in printed
    text = out.read_text()
    for piece in (
        "A note.",
        "Quick run",
        "### A fake | benchmark.",
        "- a | lost race: 0.5, wanted >= 1 (2 s against 1 s)",
        "- the rest of bench_fake: RuntimeError: broken half way",
        "- some peer: not installed here",
        "| theirs **/** ours | 100 ms | 200 ms | 2 | >= 1 | ok |",
        "a &#124; lost race",
        "## Load\n\nNot run here.",
    ):
        assert piece in text, piece


def test_the_page_keeps_both_halves(tmp_path):
    out = tmp_path / "RESULTS.md"
    heavy = [
        {
            "case": "choose",
            "kind": "map",
            "order": "releases",
            "size": [0, 0, 1000],
            "seconds": 0.5,
            "peak": 2e8,
            "before": 1e8,
        },
        {"case": "Noise", "kind": "mask", "order": "n p", "size": [500, 20, 1], "failed": "more than 3 s"},
    ]
    sizes = [10, 100, 1000]
    curve = growth.Curve("Noise", "n", "n p", 1.0, 1.0, sizes, [1.0, 10.0, 100.0], [2e7, 2e8, 2e9])
    page.keep(out, load={"load": heavy, "curves": [dataclasses.asdict(curve)]}, seconds=60, quick=False)
    assert "## Ratios\n\nNot run here." in out.read_text()
    page.keep(
        out, tables=[page.Table("title", [page.Row("a / b", 1.0, 2.0, 2.0, ">= 1", "ok")])], seconds=60, quick=False
    )
    text = out.read_text()
    assert "| choose | 1,000 releases | 500 ms | 200 MB (100) | releases |" in text
    assert "| Noise | 500 × 20 | more than 3 s |  | n p |" in text
    assert "| Noise | records | 10 to 1,000 | 1.00, 1 | 1.00, 1 | n p | ok |" in text
    assert "Nothing misses" not in text and "- Noise, 500 × 20: more than 3 s" in text and "| a **/** b |" in text


def test_times_have_units():
    assert [page.seconds(v) for v in (2.0, 0.0123, 4e-5, 5e-8)] == ["2 s", "12.3 ms", "40 µs", "50 ns"]


# -- peers -----------------------------------------------------------------------------------------------


def test_a_peer_that_is_not_here():
    assert peer("no_such_package_at_all") is None
    assert peer("numpy") is np


def test_numbers_must_agree_before_a_race():
    name, ours, theirs, ratio, _ = bench_peers.against("same", lambda: 1.0, lambda: 1.0 + 1e-12, rounds=1)
    assert name == "same" and ratio == pytest.approx(theirs / ours)
    with pytest.raises(AssertionError, match="are not the same number"):
        bench_peers.against("other", lambda: 1.0, lambda: 1.1)
    assert bench_peers.against("other quantity", lambda: 1.0, lambda: 1.1, within=None, rounds=1)[0] == "other quantity"


def test_peers_elsewhere_say_why_they_are_absent(monkeypatch, tmp_path):
    data = cases.file(50, 10)[["v0", "v1"]]
    monkeypatch.setenv("BENCH_ANONYMETER", str(tmp_path / "nothing"))
    assert "not installed here" in elsewhere.anonymeter(data, data, 5)
    monkeypatch.setattr(elsewhere.shutil, "which", lambda name: None)
    assert elsewhere.rscript(data, data) == "R is not installed here"
    rows = list(bench_peers.with_r(data, data))
    assert [type(r) for r in rows] == [Absent] * 3


def test_what_r_prints_is_read(monkeypatch):
    said = ["package\tsdcMicro\t", "row\tbase R, two lm() and confint()\t0.25\t0.75", "something else"]
    monkeypatch.setattr(elsewhere.shutil, "which", lambda name: "/somewhere/Rscript")
    monkeypatch.setattr(elsewhere, "_ask", lambda *_: said)
    data = cases.file(20, 5)
    found = elsewhere.rscript(data, data)
    assert found["packages"] == ["base", "sdcMicro"] and found["base R, two lm() and confint()"] == (0.25, 0.75)


def test_a_process_elsewhere_reads_both_files():
    data = cases.file(30, 5)[["v0", "v1"]]
    code = "import sys, json; print(json.dumps([sum(1 for _ in open(p)) for p in sys.argv[1:]]))"
    assert json.loads(elsewhere._ask([sys.executable, "-c", code], data, data.head(10))[-1]) == [31, 11]
    failed = elsewhere._ask([sys.executable, "-c", "raise SystemExit('no luck')"], data, data)
    assert failed == "failed: no luck"


def test_the_page_says_where_loads_lose():
    sizes = [1_000, 10_000, 100_000]
    steep = growth.Curve("steep", "n", "n", 1.0, 1.0, sizes, [s**2.0 for s in sizes], [0.0] * 3)
    fine = dataclasses.replace(steep, case="fine", seconds=[float(s) for s in sizes])
    killed = dataclasses.replace(steep, case="killed", failed="more than 300 s")
    broken = {"case": "broken", "kind": "mask", "order": "n", "size": [10, 2, 1], "failed": "MemoryError"}
    said = load.misses({"load": [broken], "curves": [dataclasses.asdict(c) for c in (steep, fine, killed)]})
    assert said == [
        "broken, 10 × 2: MemoryError",
        "growth of steep with records: exponents found and promised are 2.00, 1 of time and small of memory",
        "growth of killed with records: more than 300 s",
    ]


# -- past one machine ------------------------------------------------------------------------------------


def test_a_simulated_cluster_is_bound_by_what_is_scarce():
    from benchmarks.cluster import Costs, simulate

    costs = Costs(work=1.0, handing=1e-3, point_bytes=0.0, cargo_bytes=0.0)
    alone, waits = simulate(costs, 1, 50)
    assert alone == pytest.approx(50 * 1.001) and waits == "work"
    ten, _ = simulate(costs, 10, 1000)
    assert 100 <= ten < 102
    # With more workers than points per second of the scheduler, each point waits for it.
    crowd, waits = simulate(costs, 5000, 5000)
    assert crowd == pytest.approx(5000 * 1e-3 + 1.0) and waits == "scheduler"
    heavy, waits = simulate(Costs(1.0, 1e-3, 0.0, 125e6), 100, 100)
    assert heavy == pytest.approx(100 * 1.001 + 1.0) and waits == "sending data"


def test_bytes_of_a_point_do_not_grow_with_the_file():
    from benchmarks.cluster import Counting, measured, table

    sizes = []
    for records in (100, 1000):
        counting = Counting()
        measured(table(records), 5, counting)
        sizes.append((counting.sent + counting.received) / 5)
    assert abs(sizes[1] - sizes[0]) < 200
