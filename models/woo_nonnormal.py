"""Karr, Oganian, Reiter and Woo, Tables 2 to 9: broad utilities of five masks on eight kinds of non-normal data.

Two variables, symmetric or skewed, with high or low correlation, negative or positive. The paper does not say from
which laws its data come. Here symmetric data are a contaminated normal, .8 N(0, R) + .2 N(0, 36 R), and skewed data are
lognormal, with one variable reflected for negative correlation. Their parameters were *chosen* for closeness to the
printed tables, so that agreement in size is partly built in; the orderings that the paper claims are what the study
checks.

All utilities but MD are sums over records and grow with n, and the numbers of clusters are shares of n (5, 10 and 1 %).
The paper has n = 10,000: ``ruvdecision run models/woo_nonnormal.py --set n=10000`` takes minutes. The default is quick.
"""

from pathlib import Path

import numpy as np
import pandas as pd

import ruvdecision as ruv
from ruvdecision.maps.scores import Column
from ruvdecision.measure import measure
from ruvdecision.measures import MD, Cluster, ClusteredPropensity, Propensity, RecordLinkage, TreePropensity

PAPER_N = 10_000
MASKS = {
    "Syn": ruv.Synthesize(moments="exact"),
    "Micz03": ruv.Microaggregate(size=3, by="zscore"),
    "Micz03+Noise": ruv.Microaggregate(size=3, by="zscore") | ruv.masks.ResidualNoise(),
    "Rank": ruv.RankSwap(within=0.15),
    "Resampling": ruv.Resample(times=3),
}
# Correlation of the underlying normal law, and the lognormal's sd of logs for skewed data.
STRUCTURES = {
    "symhineg": (-0.7, None),
    "symhipos": (0.7, None),
    "symloneg": (-0.3, None),
    "symlopos": (0.3, None),
    "nonhineg": (-0.7, 0.5),
    "nonhipos": (0.7, 0.5),
    "nonloneg": (-0.3, 0.5),
    "nonlopos": (0.3, 1.2),
}
MEASURES = (
    "MD",
    "MCM",
    "Clu g1",
    "Clu g2",
    "Logit I",
    "Logit II",
    "Tree .001",
    "Tree .0001",
    "ModLog lin",
    "ModLog quad",
)
# Tables 2 to 9 as printed, in the order of MEASURES; the columns are in the order of MASKS.
PRINTED = {
    "symhineg": (
        (0.3204, 0.1447, 0.2746, 0.0089, 0.0058),  # MD
        (117.399, 35.736, 69.331, 0.109, 0.029),  # MCM
        (1318.57, 397.393, 739.922, 140.075, 45.616),  # Clu g1
        (1448.2, 588.027, 876.646, 247.219, 86.533),  # Clu g2
        (0, 27.5052, 0.0031, 16.1094, 0.4074),  # Logit I
        (491.34, 60.01, 40.128, 24.377, 0.474),  # Logit II
        (1247.756, 250.822, 632.424, 0, 0),  # Tree .001
        (2161.905, 2304.599, 1668.949, 155.936, 46.543),  # Tree .0001
        (1123.41, 281.51, 607.61, 84.39, 17.25),  # ModLog lin
        (1292.81, 305.4, 678.33, 93.06, 17.44),  # ModLog quad
    ),
    "symhipos": (
        (0.234, 0.0507, 0.1568, 0.009, 0.008),  # MD
        (282.491, 12.194, 89.209, 0.127, 0.122),  # MCM
        (1525.89, 359.629, 877.46, 154.386, 39.378),  # Clu g1
        (1651.5, 555.973, 1055.22, 253.018, 92.608),  # Clu g2
        (0, 16.0487, 0.002, 9.9971, 0.08135),  # Logit I
        (596.97, 32.89, 1.06, 18.2919, 0.1287),  # Logit II
        (1445.943, 204.192, 843.333, 0, 0),  # Tree .001
        (2306.393, 2319.399, 1889.63, 220.581, 163.555),  # Tree .0001
        (1202.4, 128.14, 508.89, 90.42, 17.76),  # ModLog lin
        (1527.14, 264.43, 765.81, 102.85, 23.44),  # ModLog quad
    ),
    "symloneg": (
        (0.2942, 0.112, 0.242, 0.005, 0.007),  # MD
        (188.743, 46.568, 114.844, 0.0315, 0.0754),  # MCM
        (1310.23, 379.188, 732.766, 127.278, 66.931),  # Clu g1
        (1433.15, 560.94, 852.404, 232.161, 119.079),  # Clu g2
        (0, 22.7232, 0.0093, 1.7916, 0.9926),  # Logit I
        (475.749, 40.499, 28.336, 22.3447, 1.4391),  # Logit II
        (1265.156, 255.322, 610.325, 0, 0),  # Tree .001
        (2126.655, 2222.952, 1746.085, 55.597, 68.89),  # Tree .0001
        (935.283, 233.397, 575.274, 59.989, 25.371),  # ModLog lin
        (1299.38, 279.26, 666.65, 66.82, 27.21),  # ModLog quad
    ),
    "symlopos": (
        (0.2463, 0.0701, 0.1899, 0.005, 0.005),  # MD
        (238.679, 27.559, 110.506, 0.026, 0.064),  # MCM
        (1388.38, 357.074, 695.288, 125.322, 42.748),  # Clu g1
        (1512.55, 555.627, 866.178, 230.854, 86.052),  # Clu g2
        (0, 36.529, 0.0045, 1.3335, 0.1478),  # Logit I
        (465.33, 40.437, 1.611, 16.855, 0.5036),  # Logit II
        (1340.617, 228.463, 614.056, 0, 0),  # Tree .001
        (2221.793, 2260.441, 1778.514, 156.984, 79.011),  # Tree .0001
        (1032.65, 138.48, 989.89, 62.31, 13.36),  # ModLog lin
        (1417.31, 168.28, 1151.85, 69.37, 20.04),  # ModLog quad
    ),
    "nonhineg": (
        (0.1782, 0.1657, 0.1394, 0.0113, 0.0107),  # MD
        (61.908, 64.404, 44.428, 0.095, 0.2007),  # MCM
        (690.76, 702.619, 533.736, 139.408, 20.729),  # Clu g1
        (796.51, 856.033, 642.149, 237.94, 53.596),  # Clu g2
        (0, 247.869, 0.0965, 44.153, 0.525),  # Logit I
        (506.15, 478.16, 120.47, 68.239, 0.772),  # Logit II
        (644.525, 566.008, 443.068, 0, 0),  # Tree .001
        (1704.461, 2359.788, 1524.031, 0, 51.56),  # Tree .0001
        (666.93, 639.419, 490.235, 106.099, 25.571),  # ModLog lin
        (702.504, 675.245, 532.743, 119.678, 33.817),  # ModLog quad
    ),
    "nonhipos": (
        (0.1367, 0.0642, 0.0276, 0.0105, 0.0075),  # MD
        (85.433, 20.002, 1.986, 0.0834, 0.174),  # MCM
        (710.982, 671.061, 162.902, 129.157, 26.189),  # Clu g1
        (811.539, 846.778, 288.807, 231.317, 42.3527),  # Clu g2
        (0, 314.734, 0.0045, 35.294, 0.105),  # Logit I
        (511.651, 398.395, 0.385, 54.939, 0.6045),  # Logit II
        (653.244, 565.869, 57.574, 0, 0),  # Tree .001
        (1541.373, 2420.578, 872.952, 0, 110.44),  # Tree .0001
        (660.733, 592.077, 116.057, 82.957, 19.071),  # ModLog lin
        (703.541, 676.615, 154.467, 100.005, 30.457),  # ModLog quad
    ),
    "nonloneg": (
        (0.144, 0.142, 0.1031, 0.006, 0.011),  # MD
        (61.888, 53.83, 33.011, 0.029, 0.2105),  # MCM
        (677.951, 698.289, 441.349, 103.477, 15.233),  # Clu g1
        (779.863, 888.56, 558.011, 218.239, 31.263),  # Clu g2
        (0, 166.989, 0.0245, 8.003, 0.403),  # Logit I
        (475.817, 396.989, 6.616, 15.933, 1.001),  # Logit II
        (631.762, 585.561, 367.839, 0, 0),  # Tree .001
        (1768.438, 2345.072, 1552.975, 0, 230.3188),  # Tree .0001
        (647.683, 639.038, 382.881, 53.324, 19.183),  # ModLog lin
        (690.294, 685.234, 449.454, 73.587, 25.613),  # ModLog quad
    ),
    "nonlopos": (
        (0.354, 0.1282, 0.3193, 0.0045, 0.0086),  # MD
        (559.005, 29.374, 387.413, 0.0263, 0.2318),  # MCM
        (2913.04, 661.19, 2014.19, 112.842, 65.974),  # Clu g1
        (3153.95, 1097.21, 2569.32, 233.712, 171.051),  # Clu g2
        (0, 63.434, 0.009, 6.558, 0.374),  # Logit I
        (2132.36, 95.205, 205.1, 7.038, 0.431),  # Logit II
        (3267.603, 1151.447, 2721.885, 0, 0),  # Tree .001
        (3665.534, 2784.064, 3306.998, 0, 190.083),  # Tree .0001
        (2413.24, 463.78, 1275.19, 37.27, 20.99),  # ModLog lin
        (2657.47, 721.77, 1733.46, 50.99, 32.64),  # ModLog quad
    ),
}


def draw(structure, n, rng):
    """Records of one kind of data."""
    rho, spread = STRUCTURES[structure]
    root = np.linalg.cholesky([[1, abs(rho)], [abs(rho), 1]])
    z = rng.standard_normal((n, 2)) @ root.T
    if spread is None:
        z *= np.where(rng.random(n) < 0.2, 6.0, 1.0)[:, None]
    else:
        z = np.exp(spread * z)
    if rho < 0:
        z[:, 1] *= -1
    return pd.DataFrame(z, columns=["x1", "x2"])


def utilities(n, separable):
    """The paper's utilities; some share their work, so that ten numbers come from seven measures."""
    g1, g2, g = (max(round(share * n), 2) for share in (0.05, 0.10, 0.01))
    return [
        MD(),
        Cluster(clusters=[g1, g2], name="Clu g1"),
        Propensity(degree="I", statistic="U", name="Logit I"),
        Propensity(degree="II", statistic="U", name="Logit II"),
        TreePropensity(cp=0.001, statistic="U", name="Tree .001"),
        TreePropensity(cp=0.0001, statistic="U", name="Tree .0001"),
        ClusteredPropensity(clusters=g, degree=1, statistic="U", separable=separable, name="ModLog lin"),
        ClusteredPropensity(clusters=g, degree=2, statistic="U", separable=separable, name="ModLog quad"),
        RecordLinkage(),
    ]


def study(n=4000, seed=1, separable="share", executor=None, checkpoint=None):
    """One map per kind of data.

    ``separable`` says what the modified logistic model does in clusters that it separates.
    """
    places = {name: None if checkpoint is None else Path(checkpoint) / name for name in STRUCTURES}
    return {name: cell(name, n, seed + i, separable, executor, places[name]) for i, name in enumerate(STRUCTURES)}


def cell(structure, n, seed, separable, executor=None, checkpoint=None):
    """The map of one kind of data: linkage as risk; as utility the modified logistic model, the paper's favourite."""
    records, masking = np.random.SeedSequence(seed).spawn(2)
    data = draw(structure, n, np.random.default_rng(records))
    measures = utilities(n, separable)
    running = {"executor": executor, "checkpoint": checkpoint, "progress": False}
    found = measure(data, list(MASKS.values()), measures=measures, seed=masking, parts=True, **running)
    second = f"Clu g1.g={measures[1].clusters[1]}"
    columns = {m: found.columns[{"MCM": "MD.MCM", "Clu g2": second}.get(m, m)] for m in MEASURES}
    return ruv.RUMap.build(
        masks=list(MASKS.values()),
        labels=ruv.maps.Labels(list(MASKS), technique=list(MASKS)),
        provenance=ruv.maps.Provenance(engine="data"),
        risk="linkage",
        utility=Column("ModLog lin", "reciprocal"),
        columns={"linkage": found.columns["linkage"], **columns},
        attrs={
            "n": n,
            "seed": str(seed),
            "separable": separable,
            "better": {"linkage": "lower", **dict.fromkeys(MEASURES, "lower")},
        },
    )


# -- what the paper claims -----------------------------------------------------------------------------

SYN, MICZ, BOTH, RANK, RESAMPLING = range(5)
SYMMETRIC = [s for s in STRUCTURES if s.startswith("sym")]
SKEWED = [s for s in STRUCTURES if s.startswith("non")]
LOGISTIC, TREES, CDF = ("Logit I", "Logit II"), ("Tree .001", "Tree .0001"), ("MD", "MCM")

# Each claim: its words, the kinds of data and the utilities that it is about, and when five values (small is good) bear
# it out.
CLAIMS = [
    (
        "Rank and Resampling are better than the other three",
        list(STRUCTURES),
        [m for m in MEASURES if m not in LOGISTIC],
        lambda u: max(u[RANK], u[RESAMPLING]) < min(u[:RANK]),
    ),
    (
        "Micz03 is the best and Syn the worst of the other three",
        [*SYMMETRIC, "nonlopos"],
        [m for m in MEASURES if m not in (*LOGISTIC, "Tree .0001")],
        lambda u: u[MICZ] < u[BOTH] < u[SYN],
    ),
    (
        "Micz03+Noise is the best of the other three",
        ["nonhineg", "nonhipos", "nonloneg"],
        [m for m in MEASURES if m != "Logit I"],
        lambda u: u[BOTH] < min(u[SYN], u[MICZ]),
    ),
    (
        "Logistic I all but misses Syn and Micz03+Noise",
        list(STRUCTURES),
        ["Logit I"],
        lambda u: max(u[SYN], u[BOTH]) < 0.01 * u[MICZ],
    ),
    (
        "Logistic II and tree II prefer Micz03+Noise to Micz03",
        SYMMETRIC,
        ["Logit II", "Tree .0001"],
        lambda u: u[BOTH] < u[MICZ],
    ),
    (
        "Resampling is better than Rank",
        SYMMETRIC,
        [m for m in MEASURES if m not in (*CDF, "Tree .001")],
        lambda u: u[RESAMPLING] < u[RANK],
    ),
    (
        "Resampling is better than Rank",
        SKEWED,
        [m for m in MEASURES if m not in (*CDF, *TREES)],
        lambda u: u[RESAMPLING] < u[RANK],
    ),
    (
        "Tree I cannot tell Rank from Resampling",
        list(STRUCTURES),
        ["Tree .001"],
        lambda u: u[RANK] == u[RESAMPLING] == 0,
    ),
    ("Tree II gives Rank a utility of zero", SKEWED, ["Tree .0001"], lambda u: u[RANK] == 0),
]


def check(tables):
    """How often each claim holds: (words, kinds of data, held, of) from structures' measures by masks."""
    results = []
    for words, structures, measures, holds in CLAIMS:
        rows = [tables[s][MEASURES.index(m)] for s in structures for m in measures]
        results.append((words, structures, sum(bool(holds(row)) for row in rows), len(rows)))
    return results


def same_order(ours, printed):
    """How many pairs of masks are in the printed order, and of how many; printed ties are left out."""
    same = total = 0
    for s, table in printed.items():
        for i, row in enumerate(table):
            for a in range(5):
                for b in range(a):
                    if row[a] != row[b]:
                        total += 1
                        same += (ours[s][i][a] < ours[s][i][b]) == (row[a] < row[b])
    return int(same), total


def tables_of(maps):
    """Our Tables 2 to 9: measures by masks for each kind of data."""
    return {s: np.array([m.columns[name] for name in MEASURES]) for s, m in maps.items()}


def notes(maps):
    """Tables 2 to 9 beside ours, and the claims held against both."""
    n = next(iter(maps.values())).attrs["n"]
    ours = tables_of(maps)
    if n == PAPER_N:
        yield "Ours (paper's) for " + ", ".join(MASKS) + "."
        for s in STRUCTURES:
            for i, m in enumerate(MEASURES):
                values = ", ".join(f"{a:.4g} ({b:.4g})" for a, b in zip(ours[s][i], PRINTED[s][i], strict=True))
                yield f"{s} {m:<11} {values}"
    else:
        yield (
            f"n = {n}: a sum over records grows with n where a mask leaves a trace and stays where it leaves none, so "
            f"no factor makes it the paper's of n = {PAPER_N}; orders and claims are compared, numbers with "
            f"--set n={PAPER_N}."
        )
    yield "Claims of the text, in how many cells they hold:"
    for (words, structures, held, of), (_, _, held_printed, _) in zip(check(ours), check(PRINTED), strict=True):
        kind = {4: structures[0][:3], 8: "all"}.get(len(structures), ", ".join(structures))
        yield f"  {words} ({kind}): ours {held} of {of}, the paper's own tables {held_printed} of {of}."
    same, total = same_order(ours, PRINTED)
    yield f"Of {total} pairs of masks (8 kinds of data, 10 utilities, ties left out) {same} are in the printed order."
    yield (
        "Logistic I is zero for Syn because Syn keeps means and covariances exactly, and a tree is zero for Rank "
        "because rank swapping "
        "keeps every margin, so that no first split gains anything: by construction, and no sign of utility."
    )
    yield (
        "Not reproduced: the printed Rank lies closer to the original in MD, MCM and cluster than a window of 15 % "
        "gives here, and its tree II of Tables 2 to 5 is not zero."
    )


if __name__ == "__main__":
    from ruvdecision.cli import main

    raise SystemExit(main(["run", __file__]))
