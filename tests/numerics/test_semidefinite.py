"""Square roots of covariances, singular ones too."""

import numpy as np
import pytest

from ruvdecision.numerics.semidefinite import lower_root, range_root, root, symmetric_root

COVARIANCES = {
    "regular": np.array([[2.0, 0.9, 0.3], [0.9, 1.0, 0.4], [0.3, 0.4, 3.0]]),
    "singular": np.outer([1.0, 2.0, -3.0], [1.0, 2.0, -3.0]),
    "far units": np.array([[1e-12, 0.0, 5e-7], [0.0, 0.0, 0.0], [5e-7, 0.0, 1.0]]),
    "none": np.zeros((3, 3)),
}


@pytest.mark.parametrize("name", COVARIANCES)
@pytest.mark.parametrize("function", [root, lower_root, symmetric_root])
def test_roots_are_roots(name, function):
    covariance = COVARIANCES[name]
    size = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    found = function(covariance)
    np.testing.assert_allclose((found @ found.T) / np.outer(size, size), covariance / np.outer(size, size), atol=1e-9)
    stack = function(np.stack([covariance, 4 * covariance]))
    np.testing.assert_allclose(stack[0], found, atol=1e-15)
    np.testing.assert_allclose(stack[1] @ stack[1].T, 4 * covariance, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize(("name", "rank"), [("regular", 3), ("singular", 1), ("far units", 2), ("none", 0)])
def test_a_root_on_the_range_has_a_left_inverse(name, rank):
    covariance = COVARIANCES[name]
    unit = np.sqrt(np.where(np.diag(covariance) > 0, np.diag(covariance), 1.0))
    found, inverse = range_root(covariance, unit, 1e-12)
    assert found.shape == inverse.T.shape == (3, rank)
    np.testing.assert_allclose((found @ found.T) / np.outer(unit, unit), covariance / np.outer(unit, unit), atol=1e-14)
    np.testing.assert_allclose(inverse @ found, np.eye(rank), atol=1e-12)


@pytest.mark.parametrize("name", COVARIANCES)
def test_each_root_has_its_shape(name):
    assert not np.triu(lower_root(COVARIANCES[name]), 1).any()
    np.testing.assert_allclose(symmetric_root(COVARIANCES[name]), symmetric_root(COVARIANCES[name]).T, atol=1e-15)
