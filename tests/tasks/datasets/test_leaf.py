import json

import numpy as np
import pytest

from stragglers._core.errors import BadInput
from stragglers.tasks.datasets import leaf
from tests.support.pictures import drawings, leaf_json

WRITERS = drawings([3, 5])


def test_reads_what_was_written(tmp_path):
    one = leaf_json(tmp_path / "a.json", drawings([4]))
    two = leaf_json(tmp_path / "b.json", {"z": WRITERS["f0001_01"]}, hierarchies=["h"])
    (first, fields), (second, others) = leaf.clients([one, two])
    assert (first, second) == ("f0000_00", "z")
    np.testing.assert_allclose(fields["pixels"], drawings([4])["f0000_00"]["pixels"], atol=1e-7)
    np.testing.assert_array_equal(others["label"], WRITERS["f0001_01"]["label"])
    assert fields["pixels"].shape == (4, 28, 28) and others["label"].dtype == np.int64


def user(**changes):
    image = [1.0] * 784
    return {"f0000_00": {"x": [image], "y": [7]} | changes}


BAD = {
    "users and num_samples": (dict(num_samples=[3]), "2 users and 1 num_samples"),
    "num_samples": (dict(num_samples=[3, 6]), "5 images, 5 labels and num_samples 6"),
    "nobody": (dict(user_data={}), "no user_data of user 'f0000_00'"),
    "no list": (dict(users="f0000_00"), r"not LEAF's JSON .*users"),
    "labels": (dict(num_samples=[1, 5], user_data=user(y=[7, 8])), "1 images, 2 labels"),
    "text": (dict(num_samples=[1, 5], user_data=user(y=["7"])), r"not x and y .*y"),
    "short": (dict(num_samples=[1, 5], user_data=user(x=[[1.0] * 783])), "an image of 783 pixels"),
    "no x": (dict(num_samples=[1, 5], user_data={"f0000_00": {"y": [7]}}), r"not x and y .*`x`"),
}


@pytest.mark.parametrize("what", BAD)
def test_refuses(tmp_path, what):
    changes, message = BAD[what]
    path = leaf_json(tmp_path / "all_data_0.json", WRITERS, **changes)
    with pytest.raises(BadInput, match=message) as error:
        list(leaf.clients([path]))
    assert "all_data_0.json" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_refuses_a_truncated_file(tmp_path, share):
    path = leaf_json(tmp_path / "all_data_0.json", WRITERS)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(BadInput, match=r"all_data_0\.json: not LEAF's JSON"):
        list(leaf.clients([path]))


def test_refuses_numbers_that_json_does_not_have(tmp_path):
    path = leaf_json(tmp_path / "a.json", drawings([1]))
    path.write_text(json.dumps(json.loads(path.read_text())).replace("1.0", "NaN", 1))
    with pytest.raises(BadInput, match=r"a\.json"):
        list(leaf.clients([path]))


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(BadInput, match="cannot be read"):
        list(leaf.clients([tmp_path / "gone.json"]))
