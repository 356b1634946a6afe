"""Settings of the nouns: listed and replaced in one way."""

import pytest

from ruvdecision.errors import InputError
from ruvdecision.users.settings import with_setting


def test_settings_reach_into_mappings_and_lists():
    assert with_setting({"a": [1, 2]}, ["a", "1"], 5, "a.1") == {"a": [1, 5]}
    assert with_setting((1, 2), ["0"], 5, "0") == (5, 2)
    with pytest.raises(InputError, match="does not have"):
        with_setting({"a": 1}, ["b"], 2, "b")
