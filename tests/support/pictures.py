"""Small EMNIST and CIFAR-100 data, and writers of the layouts that hold images."""

import io
import json
import pickle
import tarfile
from pathlib import Path

import numpy as np

from stragglers.tasks.datasets.cifar_files import COARSE_OF_FINE
from tests.support import files


def drawings(sizes, seed=0):
    """Clients of EMNIST: ink on white paper, pixels as multiples of 1/255."""
    rng = np.random.default_rng(seed)
    clients = {}
    for index, size in enumerate(sizes):
        shade = np.full((size, 28, 28), 255, np.uint8)
        shade[:, 4:24, 4:24] = rng.integers(0, 256, (size, 20, 20))
        pixels = (1 - (255 - shade) / 255.0).astype(np.float32)
        labels = rng.integers(0, 62, size).astype(np.int32)
        labels[: size // 3] = rng.integers(0, 5, size // 3)
        clients[f"f{index:04}_{index % 7:02}"] = {"pixels": pixels, "label": labels}
    return clients


def photographs(sizes, seed=0):
    """Clients of CIFAR-100 as TFF has them."""
    rng = np.random.default_rng(seed)
    clients = {}
    for index, size in enumerate(sizes):
        label = rng.integers(0, 100, size)
        clients[str(index)] = {
            "image": rng.integers(0, 256, (size, 32, 32, 3)).astype(np.uint8),
            "label": label,
            "coarse_label": COARSE_OF_FINE[label],
        }
    return clients


def flat(clients):
    """Fields as TFF's SQLite has them: an image is a row of numbers, CIFAR's are int64."""

    def row(values):
        values = values.astype(np.int64) if values.dtype == np.uint8 else values
        return values.reshape(len(values), -1) if values.ndim > 1 else values

    return {name: {f: row(v) for f, v in fields.items()} for name, fields in clients.items()}


def emnist_hdf5(folder, train, test):
    files.tff_hdf5(folder / "fed_emnist_train.h5", train)
    files.tff_hdf5(folder / "fed_emnist_test.h5", test)


def emnist_sqlite(folder, train, test):
    splits = {"all_train": flat(train), "all_test": flat(test), "digits_only_test": flat(test)}
    files.tff_sqlite(folder / "emnist_all.sqlite", splits)


def emnist_lzma(folder, train, test):
    import lzma

    emnist_sqlite(folder, train, test)
    plain = folder / "emnist_all.sqlite"
    (folder / "emnist_all.sqlite.lzma").write_bytes(lzma.compress(plain.read_bytes(), preset=0))
    plain.unlink()


def emnist_fedjax(folder, train, test):
    def hashed(clients):  # as FedJAX names some writers
        return {f"{index:016x}:{name}": clients[name] for index, name in enumerate(clients)}

    files.fedjax_sqlite(folder / "federated_emnist_train.sqlite", hashed(train))
    files.fedjax_sqlite(folder / "federated_emnist_test.sqlite", test)


def leaf_json(path, clients, **changes):
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "users": list(clients),
        "num_samples": [len(fields["label"]) for fields in clients.values()],
        "user_data": {
            name: {
                "x": fields["pixels"].reshape(-1, 784).astype(float).round(12).tolist(),
                "y": fields["label"].tolist(),
            }
            for name, fields in clients.items()
        },
    }
    path.write_text(json.dumps(content | changes))
    return path


def emnist_leaf(folder, train, test):
    names = list(train)
    half = len(names) // 2
    for number, part in enumerate((names[half:], names[:half])):  # files in no order of names
        leaf_json(folder / f"train/all_data_{number}.json", {name: train[name] for name in part})
    leaf_json(folder / "test/all_data_0.json", test)


def png(shade):
    from PIL import Image

    content = io.BytesIO()
    Image.fromarray(shade).save(content, "PNG")
    return content.getvalue()


def parquet(path, rows, columns=("image", "writer_id", "hsf_id", "character")):
    """Rows of (28x28 bytes or anything else, writer, character)."""
    import pyarrow as pa
    from pyarrow.parquet import write_table

    images = [
        {"bytes": png(image) if isinstance(image, np.ndarray) else image, "path": None}
        for image, _, _ in rows
    ]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = {
        "image": pa.array(images, kind),
        "writer_id": [writer for _, writer, _ in rows],
        "hsf_id": [0] * len(rows),
        "character": pa.array([label for _, _, label in rows], pa.int64()),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_table(pa.table({name: table[name] for name in columns}), path)
    return path


def everything(sizes=(2_00, 1_00), labels=range(100)):
    """Raw CIFAR-100: equally many images of each label, shuffled: {split: (images, fine)}."""
    rng = np.random.default_rng(5)
    made = {}
    for split, size in zip(("train", "test"), sizes):
        fine = rng.permutation(np.resize(np.array(labels), size))
        made[split] = rng.integers(0, 256, (size, 32, 32, 3)).astype(np.uint8), fine
    return made


def planes(images):
    return images.transpose(0, 3, 1, 2).reshape(len(images), 3072)


def record_bytes(images, fine):
    labels = np.stack([COARSE_OF_FINE[fine], fine], axis=1).astype(np.uint8)
    return np.concatenate([labels, planes(images)], axis=1).tobytes()


def batch(images, fine):
    return {
        b"filenames": [b"a.png"] * len(fine),
        b"batch_label": b"training batch 1 of 1",
        b"fine_labels": [int(label) for label in fine],
        b"coarse_labels": [int(COARSE_OF_FINE[label]) for label in fine],
        b"data": planes(images),
    }


def pickled(images, fine):
    return pickle.dumps(batch(images, fine), protocol=4)


def tar(path, members):
    """An archive of (name or TarInfo, content)."""
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for member, content in members:
            info = tarfile.TarInfo(member) if isinstance(member, str) else member
            if info.isreg():
                info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return Path(path)
