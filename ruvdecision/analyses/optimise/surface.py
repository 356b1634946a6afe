"""The search for a noisy objective: smooth surfaces through evaluated masks, refined where the optimum seems to be.

A Gaussian process (scikit-learn) is fitted to the intruder's and to the scientist's side over the family's parameters.
All masks share their random numbers, so that most of the noise is common to them; the process estimates the roughness
that remains. The best point of the surfaces is evaluated, with neighbours, and the surfaces are fitted again, until the
optimum stays or the evaluations are used up.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...checks import as_seed_sequence
from ...protocols import Array
from .families import UnitBox
from .objective import Candidate, Objective

DECADES = np.geomspace(1e-4, 1e10, 15)
SETTLED = 2e-3
"""A move of the optimum, in units of the parameters' ranges, below which it has settled."""


def has_jumps(objective: Objective) -> bool:
    """Tell whether the objective jumps between neighbouring masks, so that roots and slopes cannot be trusted.

    Three places of the box are looked at, each with two close neighbours. A smooth function has next to no second
    difference there, and some first difference. The objective of a family without noise is smooth.
    """
    box = UnitBox(objective.box, [1.0 if np.isinf(high) else (high - low) / 2 for low, high in objective.box])
    step = 1e-4
    places = np.array([t + s for t in (0.23, 0.51, 0.77) for s in (-step, 0.0, step)])
    points = objective.evaluate_points(box.values(np.repeat(places[:, None], len(objective.box), axis=1)))
    for read in (lambda p: p.safety, lambda p: p.loss):
        f = np.array([read(p) for p in points]).reshape(3, 3)
        if not np.isfinite(f).all() or np.ptp(f) == 0:
            continue
        bend = np.abs(f[:, 0] - 2 * f[:, 1] + f[:, 2])
        if np.any(bend > 1e-5 * np.abs(f[:, 1]) + 1e-14) or np.all(f[:, 0] == f[:, 2]):
            return True
    return False


Surface = Callable[[Array], tuple[Array, Array]]
"""Mean and standard deviation of a side at points of the unit box."""


@dataclass(frozen=True)
class Surfaces:
    """Both sides of the objective as smooth functions of the unit box, with their standard deviations."""

    safety: Surface
    loss: Surface
    rough: float = 0.0
    """How far one evaluation of the intruder's side lies off its surface."""

    @classmethod
    def fit(cls, at: Array, points: list[Candidate], seed: int) -> Surfaces:
        """Fit to evaluated points."""
        good = [p for p in points if np.isfinite(p.safety) and np.isfinite(p.loss)]
        x = at[[np.isfinite(p.safety) and np.isfinite(p.loss) for p in points]]
        sides = np.array([[p.safety for p in good], [p.loss for p in good]])
        safety, loss = (_fit_gaussian_process(x, side, seed) for side in sides)
        return cls(safety, loss, float(np.sqrt(np.mean((safety(x)[0] - sides[0]) ** 2))))


def search_surface(
    objective: Objective, seed: np.random.SeedSequence, budget: int | None, on_progress: Callable[[float], object]
) -> tuple[list[Candidate], dict[str, float]]:
    """Search a noisy objective: the optimum (no point if none is allowed) and how far errors may have moved it."""
    d = len(objective.names)
    most = budget or 30 + 30 * d
    root = as_seed_sequence(seed)
    rng = np.random.default_rng(root)
    number = int(root.generate_state(1)[0])
    scales = [
        (high - low) / 2 if np.isfinite(high) else objective.natural_unit(j, np.concatenate([[low], low + DECADES]))
        for j, (low, high) in enumerate(objective.box)
    ]
    box = UnitBox(objective.box, scales)

    def evaluate(t: Array) -> list[Candidate]:
        return objective.evaluate_points(box.values(t))

    def moved(chosen: Candidate) -> dict[str, float]:
        """Half the way that the optimum goes when the intruder's side errs by one standard error to either side."""
        error = max(chosen.safety_error, surfaces.rough)
        ends = [_best_point_of_surfaces(surfaces, objective.required + side * error, d, rng, at) for side in (-1, 1)]
        return objective.half_distance([box.values(end) for end in ends])

    at = _space_filling_points(d, min(most // 2 + 1, 8 + 6 * d), rng)
    points = evaluate(at)
    objective.coarse += objective.allowed_points(points)
    best, quiet, reach = None, 0, 0.15
    while len(at) < most:
        surfaces = Surfaces.fit(at, points, number)
        last, best = best, _best_point_of_surfaces(surfaces, objective.required, d, rng, at)
        around = np.clip(best + reach * rng.standard_normal((d + 1, d)), 0.0, 1.0)
        fresh = np.vstack([best, around])[: most - len(at)]
        at, points = np.vstack([at, fresh]), points + evaluate(fresh)
        on_progress(len(at) / most)
        reach = max(0.6 * reach, 0.01)
        quiet = quiet + 1 if last is not None and np.max(np.abs(best - last)) < SETTLED else 0
        if quiet >= 2:
            break
    surfaces = Surfaces.fit(at, points, number)
    for step in range(12):
        # At the optimum of the surface itself, a little further inside each time its evaluation falls short.
        t = _best_point_of_surfaces(surfaces, objective.required + step * surfaces.rough / 4, d, rng, at)
        last_try = evaluate(t[None])[0]
        at, points = np.vstack([at, t]), [*points, last_try]
        if objective.allowed(last_try):
            return [last_try], moved(last_try)
    fit, smooth = surfaces.safety(at), surfaces.loss(at)[0]
    # Of the evaluated masks that are allowed the one that the surface, not its own luck, finds the most useful.
    order = [
        i for i in np.argsort(smooth) if objective.allowed(points[i]) and fit[0][i] >= objective.required - fit[1][i]
    ]
    if not order:
        return [], {}
    return [points[order[0]]], moved(points[order[0]])


def _space_filling_points(d: int, count: int, rng: np.random.Generator) -> Array:
    """Points that fill the box, with its corners."""
    from scipy.stats import qmc

    corners = (
        np.array(np.meshgrid(*([[0.0, 1.0]] * d))).reshape(d, -1).T if d <= 4 else np.array([np.zeros(d), np.ones(d)])
    )
    # An infinite corner is evaluated, too: it is suppression.
    inner = qmc.LatinHypercube(d, rng=rng).random(max(count - len(corners), 2 * d + 2))
    return np.vstack([corners, inner])


def _best_point_of_surfaces(surfaces: Surfaces, required: float, d: int, rng: np.random.Generator, at: Array) -> Array:
    """The best point of the surfaces: candidates everywhere, then around the best one, closer each time."""
    best, width = None, 1.0
    for _ in range(7):
        candidates = (
            rng.random((1500, d)) if best is None else np.clip(best + width * rng.uniform(-1, 1, (600, d)), 0.0, 1.0)
        )
        if best is None:
            candidates = np.vstack([candidates, at])
        else:
            candidates = np.vstack([candidates, best])
            if d > 1:
                # Edges of the box are often the best place.
                edge = candidates[: 100 * d].copy()
                which = np.arange(len(edge)) % d
                edge[np.arange(len(edge)), which] = np.round(best[which])
                candidates = np.vstack([candidates, edge])
        safety, loss = surfaces.safety(candidates)[0], surfaces.loss(candidates)[0]
        fits = safety >= required
        best = candidates[np.argmin(np.where(fits, loss, np.inf))] if fits.any() else candidates[np.argmax(safety)]
        width = 0.25 if width == 1.0 else width / 4
    assert best is not None
    return best


def _fit_gaussian_process(x: Array, y: Array, seed: int) -> Surface:
    """A Gaussian process through the values, on a logarithmic scale if they have one sign."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    size, sign = np.abs(y), float(np.sign(y[0])) if len(y) else 1.0
    log = bool(np.all(sign * y > 0) and size.max() > 3 * size.min())
    z = np.log(size) if log else y
    scale = float(np.std(z))
    if len(z) < 3 or scale <= 1e-12 * max(1.0, float(np.abs(z).max())):
        level = float(np.mean(y))
        return lambda t: (np.full(len(t), level), np.zeros(len(t)))
    centre = float(np.mean(z))
    shape = ConstantKernel(1.0, (1e-2, 1e4)) * Matern([0.5] * x.shape[1], (0.03, 30.0), nu=2.5)
    model = GaussianProcessRegressor(
        shape + WhiteKernel(1e-4, (1e-12, 1.0)), n_restarts_optimizer=1, random_state=seed % 2**31
    )
    with warnings.catch_warnings():
        # A length at its bound is an answer: the surface is flat, or steep, along that parameter.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x, (z - centre) / scale)
    white = model.kernel_.k2.noise_level

    def at(t: Array) -> tuple[Array, Array]:
        mean, deviation = model.predict(np.atleast_2d(t), return_std=True)
        # Without the roughness itself: the error of the surface, not of one more evaluation.
        deviation = np.sqrt(np.maximum(deviation**2 - white, 0.0))
        mean = centre + scale * mean
        return (sign * np.exp(mean), np.exp(mean) * scale * deviation) if log else (mean, scale * deviation)

    return at
