import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from stragglers._core.errors import BadInput
from stragglers.tasks.datasets import cifar_files
from stragglers.tasks.datasets.cifar_files import COARSE_OF_FINE, RECORD
from tests.support.pictures import batch, everything, pickled, planes, record_bytes, tar

IMAGES, FINE = everything((30, 0))["train"]


def write(path, content):
    path.write_bytes(content)
    return path


def python2_pickle(images, fine):
    """Opcode by opcode as Python 2 wrote it: byte strings without a type, numpy.core."""

    def text(value):
        return b"T" + len(value).to_bytes(4, "little") + value

    def integers(values):
        return b"](" + b"".join(b"K" + bytes([value]) for value in values) + b"e"

    dtype = b"cnumpy\ndtype\n(" + text(b"u1") + b"K\x00K\x01tR(K\x03" + text(b"|")
    dtype += b"NNN" + b"J\xff\xff\xff\xff" * 2 + b"K\x00tb"
    data = planes(images).tobytes()
    shape = b"M" + len(fine).to_bytes(2, "little") + b"M" + (3072).to_bytes(2, "little") + b"\x86"
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00t" + text(b"b") + b"tR"
    array += b"(K\x01" + shape + dtype + b"\x89" + text(data) + b"tb"
    entries = text(b"data") + array
    entries += text(b"fine_labels") + integers(fine)
    entries += text(b"coarse_labels") + integers(COARSE_OF_FINE[fine])
    return b"\x80\x02}(" + entries + b"u."


WRITTEN = {
    "train.bin": record_bytes(IMAGES, FINE),
    "train": pickled(IMAGES, FINE),
    "train of Python 2": python2_pickle(IMAGES, FINE),
}


@pytest.mark.parametrize("what", WRITTEN)
@pytest.mark.parametrize("archived", [False, True])
def test_every_way_gives_the_same_images(tmp_path, what, archived):
    name = what.split()[0]
    if archived:
        path = tar(tmp_path / "cifar-100.tar.gz", [(f"cifar-100/{name}", WRITTEN[what])])
    else:
        path = write(tmp_path / name, WRITTEN[what])
    images, fine = cifar_files.read(path, name)
    np.testing.assert_array_equal(images, IMAGES)
    np.testing.assert_array_equal(fine, FINE)
    assert images.dtype == np.uint8 and fine.dtype == np.int32 and images.flags.c_contiguous


def test_classes_are_the_published_ones():
    assert (np.bincount(COARSE_OF_FINE) == 5).all()
    assert np.flatnonzero(COARSE_OF_FINE == 18).tolist() == [8, 13, 48, 58, 90]
    assert np.flatnonzero(COARSE_OF_FINE == 19).tolist() == [41, 69, 81, 85, 89]


@pytest.mark.parametrize("size", [0, 1, RECORD - 1, 10 * RECORD + 7])
def test_refuses_a_truncated_binary(tmp_path, size):
    path = write(tmp_path / "train.bin", WRITTEN["train.bin"][:size])
    with pytest.raises(BadInput, match=rf"train\.bin: {size:,} bytes, expected a multiple of 3074"):
        cifar_files.read(path, "train.bin")


@pytest.mark.parametrize("bit", range(8))
@pytest.mark.parametrize("which", ["coarse", "fine"])
def test_refuses_a_flipped_bit_of_a_label(tmp_path, bit, which):
    content = bytearray(WRITTEN["train.bin"])
    label = FINE[4] ^ (1 << bit)
    if which == "fine" and label < 100 and COARSE_OF_FINE[label] == COARSE_OF_FINE[FINE[4]]:
        pytest.skip("the flip gives another label of the same class, which nothing can tell")
    content[4 * RECORD + (which == "fine")] ^= 1 << bit
    path = write(tmp_path / "train.bin", bytes(content))
    with pytest.raises(BadInput, match=r"train\.bin: image 4: fine label \d+ of coarse class \d+"):
        cifar_files.read(path, "train.bin")


def test_refuses_another_data_set_of_the_same_shape(tmp_path):
    rows = np.frombuffer(WRITTEN["train.bin"], np.uint8).reshape(-1, RECORD)
    path = write(tmp_path / "train.bin", rows[:, [1, 0, *range(2, RECORD)]].tobytes())
    with pytest.raises(BadInput, match="damaged, or another"):
        cifar_files.read(path, "train.bin")
    ten = write(tmp_path / "data_batch_1.bin", rows[:, 1:].tobytes() + b"x")  # CIFAR-10's records
    with pytest.raises(BadInput, match="expected a multiple of 3074"):
        cifar_files.read(ten, "train.bin")


class Run:
    """Runs something when unpickled."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_cannot_run_anything(tmp_path, protocol):
    witness = tmp_path / "it ran"
    for attempt in (
        Run(os.system, f"touch '{witness}'"),
        Run(eval, f"open({str(witness)!r}, 'w')"),
        Run(Path.touch, witness),
        Run(np.fromfile, str(witness)),
        Run(np.load, str(witness), None, True),
    ):
        content = {**batch(IMAGES, FINE), b"filenames": attempt}
        path = write(tmp_path / "train", pickle.dumps(content, protocol=protocol))
        with pytest.raises(BadInput, match=r"train: asks for .*, which CIFAR-100 does not"):
            cifar_files.read(path, "train")
        assert not witness.exists()


GADGETS = {  # on what is admitted
    "a huge array": b"cnumpy\nndarray\n(M\xff\xff\x85tR.",
    "a huge reconstruction": b"cnumpy.core.multiarray\n_reconstruct\n(NJ\xff\xff\xff\x7f\x85NtR.",
    "an attribute": b"cnumpy\ndtype\nN}U\x01xK\x01s\x86b.",
    "a module's attribute": b"\x80\x04\x8c\x05numpy\x8c\x0bf2py.os.path\x93.",
}


@pytest.mark.parametrize("what", GADGETS)
def test_refuses_gadgets_of_what_is_admitted(tmp_path, what):
    path = write(tmp_path / "train", GADGETS[what])
    with pytest.raises(BadInput, match="train: "):
        cifar_files.read(path, "train")


def changed(**changes):
    return pickle.dumps({**batch(IMAGES, FINE), **{k.encode(): v for k, v in changes.items()}}, 4)


BAD = {
    "cut": (WRITTEN["train"][:-40], "not a whole pickle"),
    "empty": (b"", "not a whole pickle"),
    "text": (b"hello", "not a whole pickle"),
    "list": (pickle.dumps([1, 2]), r"expected uint8 \(n, 3072\)"),
    "no labels": (changed(fine_labels=None), "0 fine"),
    "fewer labels": (changed(fine_labels=[1, 2]), "2 fine"),
    "floats": (changed(data=np.zeros((30, 3072), np.float32)), "data float32"),
    "smaller": (changed(data=np.zeros((30, 3071), np.uint8)), r"\(30, 3071\)"),
    "negative": (changed(fine_labels=[-1] * 30), "image 0: fine label -1"),
    "large": (changed(fine_labels=[100] * 30), "image 0: fine label 100"),
    "objects": (changed(fine_labels=["1"] * 30), "0 fine"),
}


@pytest.mark.parametrize("what", BAD)
def test_refuses_pickles(tmp_path, what):
    content, message = BAD[what]
    path = write(tmp_path / "train", content)
    with pytest.raises(BadInput, match=f"train: .*{message}") as error:
        cifar_files.read(path, "train")
    assert "\n" not in str(error.value)


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(BadInput, match="cannot be read"):
        cifar_files.read(tmp_path / "train.bin", "train.bin")
